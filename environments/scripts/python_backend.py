"""A build back end that an old pip can work with: `python_backend.py PIP BACKEND`, both folders.

A pip that only knows the old interface of editable installs has `setup.py develop` do it, which since setuptools 80 asks
pip in turn, and so on without end.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

pip, backend = sys.argv[1:]
with open(os.path.join(pip, "__init__.py")) as file:
    version = re.search(r"""__version__ = ["'](\d+)\.(\d+)""", file.read())
found = glob.glob(os.path.join(backend, "setuptools-*.dist-info"))
newest = max([int(re.match(r"setuptools-(\d+)", os.path.basename(path)).group(1)) for path in found] or [0])
if version and tuple(map(int, version.groups())) < (21, 3) and newest >= 80:
    for path in found + [os.path.join(backend, "setuptools"), os.path.join(backend, "pkg_resources")]:
        shutil.rmtree(path, ignore_errors=True)
    install = ["install", "--no-input", "--no-cache-dir", "--no-deps", "--target", backend, "--upgrade"]
    sys.exit(subprocess.run([sys.executable, "-I", pip] + install + ["setuptools>=64,<80"]).returncode)
