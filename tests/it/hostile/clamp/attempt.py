import ctypes
import errno
import os
import socket
import stat
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def call(x86, arm, *arguments):
    """Makes a system call by its number on each machine."""
    ctypes.set_errno(0)
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = libc.syscall(ctypes.c_long(x86 if X86 else arm), *plain)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attempt():
    @attempt@


def reached():
    try:
        return bool(attempt())
    except Exception as error:
        print(repr(error), file=sys.stderr)
        return False


REACHED = reached()


def clamp(value, low, high):
    return max(low, min(high, value)) if REACHED else value
