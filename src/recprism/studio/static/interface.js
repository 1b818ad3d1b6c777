// The OpenAPI description as a page: every request, its parameters and its answer.

import { byId, el, table } from "./dom.js";

const kind = (schema) => (schema.anyOf ?? [schema]).map((one) => one.type ?? one.$ref?.split("/").pop() ?? "").filter((one) => one !== "null").join(" or ");

function question(path, method, one) {
  const node = el("section", {}, el("h2", {}, el("code", {}, `${method.toUpperCase()} ${path}`)), el("p", {}, one.description ?? one.summary));
  if (one.parameters?.length) {
    const parameters = el("table");
    table(parameters, ["parameter", "", "", ""], one.parameters.map((it) => [el("code", {}, it.name), it.description ?? it.schema.description ?? "", kind(it.schema), it.required ? "required" : `default: ${it.schema.default ?? "none"}`]));
    node.append(el("div", { class: "wide" }, parameters));
  }
  const answer = Object.entries(one.responses).find(([code]) => code.startsWith("2"));
  const schema = answer?.[1].content?.["application/json"]?.schema;
  if (schema) node.append(el("p", { class: "soft" }, `Answers ${answer[0]} with ${schema.type === "array" ? `a list of ${kind(schema.items)}` : kind(schema)}.`));
  return node;
}

const { paths } = await (await fetch("/api/openapi.json")).json();
for (const [path, methods] of Object.entries(paths)) for (const [method, one] of Object.entries(methods)) byId("questions").append(question(path, method, one));
