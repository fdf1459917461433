"""Runs all tries with the facts in a file, and prints what comes of each."""
import json

import files, kernel, keys, processes, sockets, way

print(json.dumps({name: way.run(function) for name, function in way.tries.items()}))
