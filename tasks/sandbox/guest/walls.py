"""The walls of the sandbox, in plain system calls: Landlock, seccomp, resource limits, no capabilities.

Sources: landlock(7), seccomp(2), capabilities(7), setrlimit(2) of the Linux man-pages; the numbers are those
of the kernel's headers for x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterable

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    22,
    24,
    38,
)
_SIGKILL = 9

_libc = ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *args: object) -> int:
    found = _libc.syscall(ctypes.c_long(number), *args)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def _prctl(option: int, *args: int) -> None:
    if _libc.prctl(option, *(ctypes.c_ulong(a) for a in (*args, 0, 0, 0, 0)[:4])):
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def die_with_parent() -> None:
    """This process is killed when the thread that made it ends."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def hide_from_children() -> None:
    """Nobody without CAP_SYS_PTRACE may look into this process through /proc or ptrace."""
    _prctl(_PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """No program run from here on gains rights; Landlock and seccomp need it."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Gives up every capability for good; nothing happens to a process that has none."""
    for capability in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the kernel's last one
                break
            if error.errno == errno.EPERM:  # not privileged: there is nothing to drop
                return
            raise
    header = struct.pack("II", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    _syscall(_NR["capset"], header, b"\0" * 24)


# Landlock ---------------------------------------------------------------------------------------------

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # rights on files that each ABI knows
_NET_BITS = 0b11  # bind and connect TCP, from ABI 4
_SCOPE_BITS = 0b11  # abstract unix sockets and signals, from ABI 6


def landlock_abi() -> int:
    """The kernel's Landlock ABI; 0 where there is none."""
    try:
        return _syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0  # not built in, or switched off: the caller chooses another level


def landlock(readable: Iterable[str]) -> int:
    """Allows reading below `readable`, and nothing else on the file system; returns the ABI.

    Also: no TCP where the kernel can, no signals and abstract sockets out of here where it can.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    handled = (1 << _FS_BITS[min(abi, 5)]) - 1
    attributes = struct.pack("QQQ", handled, _NET_BITS if abi >= 4 else 0, _SCOPE_BITS if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _syscall(_CREATE, attributes[:size], ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path in readable:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # this system keeps its libraries elsewhere
        rights = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
        rule = struct.pack("=Qi", rights, fd)
        _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(fd)
    _syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)
    return abi


# seccomp ----------------------------------------------------------------------------------------------

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE_THREAD = 0x10000
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

# name: (x86_64, aarch64); -1: the architecture has no such call
_TABLE: dict[str, tuple[int, int]] = {
    # making processes and running programs
    "fork": (57, -1), "vfork": (58, -1), "execve": (59, 221), "execveat": (322, 281),
    # the network; socketpair stays, it reaches nobody
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "tkill": (200, 130),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "setpriority": (141, 140),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "ioprio_set": (251, 30), "setpgid": (109, 154), "setsid": (112, 157),
    # namespaces, mounts, the machine
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51),
    "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "sethostname": (170, 161),
    "setdomainname": (171, 162), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "syslog": (103, 116), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "personality": (135, 92), "iopl": (172, -1), "ioperm": (173, -1), "vhangup": (153, 58),
    # what Landlock leaves open: metadata of files one may not read, and ways round paths
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1),
    "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1),
    "futimesat": (261, -1), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "flock": (73, 32),
    # memory and objects that outlive the process or escape its limits
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196),
    "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "inotify_init1": (294, 26), "inotify_init": (253, -1),
    "fanotify_init": (300, 262), "mlock": (149, 228), "mlock2": (325, 284), "mlockall": (151, 230),
    # large kernel surfaces nobody's solution needs
    "bpf": (321, 280), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "seccomp": (317, 277), "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446),
    "setuid": (105, 146), "setgid": (106, 144), "setresuid": (117, 147), "setresgid": (119, 149),
    "setgroups": (116, 159), "capset": (126, 91), "inotify_add_watch": (254, 27), "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235), "set_mempolicy": (238, 237),
    # handled by their arguments below
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261),
    "prctl": (157, 167), "fcntl": (72, 25), "ioctl": (16, 29),
}  # fmt: skip
_BY_ARGUMENT = {"clone", "clone3", "kill", "tgkill", "prlimit64", "prctl", "fcntl", "ioctl"}

_machine = platform.machine()
_NR = {name: row[0 if _machine == "x86_64" else 1] for name, row in _TABLE.items()}


def seccomp_supported() -> bool:
    """Whether the filter knows this machine's system calls."""
    return _machine in _ARCHITECTURES


def seccomp() -> None:
    """From here on: no process, program, network, other process, mount or metadata. A job's last wall.

    Threads stay possible; signals and limits only to this very process.
    """
    filters = _program(os.getpid())
    code = b"".join(struct.pack("HBBI", *one) for one in filters)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(filters), ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(program, len(program))
    # straight to prctl: the filter's address must not go through Python's int conversion of a length
    if _libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.c_void_p(ctypes.addressof(pointer)), 0, 0):
        failed = ctypes.get_errno()
        raise OSError(failed, f"seccomp: {os.strerror(failed)}")


_Instruction = tuple[int, int, int, int]
_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def _program(pid: int) -> list[_Instruction]:
    """The filter as classic BPF (code, jump if true, jump if false, operand)."""
    number, architecture, low_word = 0, 4, lambda argument: 16 + 8 * argument
    out: list[_Instruction] = [
        (_LOAD, 0, 0, architecture),
        (_JEQ, 1, 0, _ARCHITECTURES[_machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, number),
    ]
    if _machine == "x86_64":
        # the x32 calls have numbers of their own, which would pass a list of the usual ones
        out += [(_JGE, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]

    def when(name: str, body: list[_Instruction]) -> None:
        out.append((_JEQ, 0, len(body), _NR[name]))
        out.extend(body)

    for name, nr in _NR.items():
        if nr >= 0 and name not in _BY_ARGUMENT:
            when(name, [(_RETURN, 0, 0, _EPERM)])
    # glibc falls back to clone, whose flags can be read
    when("clone3", [(_RETURN, 0, 0, _ENOSYS)])
    when("clone", _if_set(low_word(0), _CLONE_THREAD))
    for name in ("kill", "tgkill"):
        when(name, _if_equal(low_word(0), (pid,)))
    when("prlimit64", _if_equal(low_word(0), (0, pid)))
    # of prctl what the interpreter and its threads may want: names, never the walls' own switches
    when("prctl", _if_equal(low_word(0), (15, 16, 0x53564D41)))
    # an owner of I/O signals is signalled by the kernel: F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP
    when("fcntl", _unless_equal(low_word(1), (8, 10, 15)))
    when("ioctl", _unless_equal(low_word(1), (0x8901, 0x8902)))
    out.append((_RETURN, 0, 0, _ALLOW))
    return out


def _if_set(offset: int, flag: int) -> list[_Instruction]:
    return [(_LOAD, 0, 0, offset), (_JSET, 0, 1, flag), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)]


def _if_equal(offset: int, values: tuple[int, ...]) -> list[_Instruction]:
    out: list[_Instruction] = [(_LOAD, 0, 0, offset)]
    for value in values:
        out += [(_JEQ, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*out, (_RETURN, 0, 0, _EPERM)]


def _unless_equal(offset: int, values: tuple[int, ...]) -> list[_Instruction]:
    out: list[_Instruction] = [(_LOAD, 0, 0, offset)]
    for value in values:
        out += [(_JEQ, 0, 1, value), (_RETURN, 0, 0, _EPERM)]
    return [*out, (_RETURN, 0, 0, _ALLOW)]


# limits -----------------------------------------------------------------------------------------------


def limit(*, cpu_s: int, memory_bytes: int) -> None:
    """Sets a job's resource limits, hard and soft alike but for CPU time, which warns a second ahead."""
    for which, soft, hard in (
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 64, 64),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_STACK, 8 << 20, 8 << 20),
    ):
        resource.setrlimit(which, (soft, hard))
    # holds for ordinary users only, and counts all of theirs: the last wall against forks where no other is
    ceiling = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    wanted = 512 if ceiling == resource.RLIM_INFINITY else min(512, ceiling)
    resource.setrlimit(resource.RLIMIT_NPROC, (wanted, wanted))
