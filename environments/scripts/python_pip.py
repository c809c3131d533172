"""The pip that came with an interpreter, as a plain folder: `python_pip.py FOLDER`."""

import compileall
import glob
import os
import shutil
import sys
import sysconfig
import zipfile

target = sys.argv[1]
places = [sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels"]
try:
    import ensurepip
    places.insert(0, os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
except ImportError:
    pass
wheels = [wheel for place in places if place for wheel in sorted(glob.glob(os.path.join(place, "pip-*.whl")))]
if wheels:
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(target)
else:
    try:
        import pip
    except ImportError:
        sys.exit("this interpreter has neither `ensurepip` nor `pip`; install them (Debian and Ubuntu: python3-venv)")
    folder = os.path.dirname(os.path.realpath(pip.__file__))
    shutil.copytree(folder, os.path.join(target, "pip"), ignore=shutil.ignore_patterns("__pycache__"))
# Debian's pip looks for certificates where the system has them, newer ones as they start, even offline; where there are
# none, they fail. The bundle of its own lies beside it. (A fetch is told of the host's bundle by PIP_CERT all the same.)
certifi = os.path.join(target, "pip", "_vendor", "certifi")
core = os.path.join(certifi, "core.py")
if os.path.exists(os.path.join(certifi, "cacert.pem")) and os.path.exists(core):
    with open(core, "rb") as file:
        looks_elsewhere = b"/etc/ssl/certs" in file.read()
    if looks_elsewhere:
        with open(core, "w") as file:
            file.write("""import os


def where():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "cacert.pem")


def contents():
    with open(where(), "rb") as bundle:
        return bundle.read().decode("ascii")
""")
compileall.compile_dir(target, quiet=1)
