from recprism.studio.app import create_app as create_app
