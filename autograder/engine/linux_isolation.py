"""What Linux offers to lock a process in: namespaces, capabilities, limits, seccomp, Landlock. Thin calls, no policy.

Everything here acts on the calling process and cannot be undone by it.
"""

import ctypes
import os
import signal
import struct
import sys
from collections.abc import Sequence

try:
    import resource
except ImportError:  # Windows, where nothing here is called
    resource = None

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2
PDEATHSIG, CAPBSET_DROP, CHILD_SUBREAPER, NO_NEW_PRIVS = 1, 24, 36, 38  # of prctl
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}  # system call, by machine
JOIN_SESSION_KEYRING = 1
MOUNT_SETATTR = 442  # the same on every machine
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls of Landlock, the same on every machine
EXECUTE, WRITE, READ, LIST, TRUNCATE = 1, 2, 4, 8, 1 << 14  # rights that it knows
DEVICES = tuple(f"/dev/{d}" for d in ("null", "zero", "full", "random", "urandom"))
SECCOMP_ALLOW, SECCOMP_EPERM, SECCOMP_ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
NEW_NAMESPACE = NEWNS | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | 0x02000000  # and NEWCGROUP

DENIED = """
    socket connect bind listen accept accept4 ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_open
    pidfd_getfd pidfd_send_signal unshare setns mount umount2 umount pivot_root chroot move_mount open_tree fsopen fsmount
    fsconfig fspick mount_setattr bpf perf_event_open io_uring_setup io_uring_enter io_uring_register keyctl add_key
    request_key userfaultfd kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct
    quotactl quotactl_fd nfsservctl settimeofday clock_settime clock_adjtime adjtimex stime sethostname setdomainname iopl
    ioperm syslog vhangup lookup_dcookie name_to_handle_at open_by_handle_at fanotify_init personality modify_ldt
    memfd_secret memfd_create mbind migrate_pages move_pages set_mempolicy vmsplice shmget shmat shmctl msgget msgctl msgsnd
    msgrcv semget semctl semop semtimedop mq_open mq_unlink inotify_init inotify_init1 inotify_add_watch setpriority ioprio_set
    sched_setaffinity sched_setscheduler sched_setparam sched_setattr
""".split()
"""System calls that no answer and no check has a use for."""

CHANGES = """
    chmod fchmodat fchmodat2 chown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr setxattrat removexattr
    lremovexattr removexattrat
""".split()
"""Changes to files by their name that Landlock does not ask about: where it is the only wall, they are refused too."""

libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
if libc:
    libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def die_with_parent() -> None:
    """If the parent ends, so does this process."""
    _checked(libc.prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0), "pdeathsig")


def adopt_orphans() -> None:
    """Processes below this one that lose their parent become its own children."""
    _checked(libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0), "child_subreaper")


def no_new_privs() -> None:
    """No program gives this process more rights than it has; seccomp and Landlock ask for it."""
    _checked(libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def own_namespaces() -> None:
    """Leave the others' users, mounts, processes, messages, host name and network; the next fork is process 1.

    Inside, the user is number 1000 and has every right over the new namespaces until `no_new_rights`.
    """
    uid, gid = os.getuid(), os.getgid()
    _checked(libc.unshare(NEWUSER | NEWNS | NEWPID | NEWIPC | NEWUTS | NEWNET), "namespaces")
    for file, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
        with open(f"/proc/self/{file}", "w") as f:
            f.write(text)
    mount(None, "/", None, REC | PRIVATE)


def mount(what: str | None, where: str, kind: str | None, flags: int, options: str | None = None) -> None:
    raw = [None if x is None else x.encode() for x in (what, where, kind, options)]
    _checked(libc.mount(raw[0], raw[1], raw[2], flags, raw[3]), f"mount {where}")


def read_only(where: str, device: bool) -> None:
    """A mount and all below it, read-only and without programs that give rights; devices work where they are asked for."""
    attributes = struct.pack(
        "=QQQQ", 1 | 2 | (0 if device else 4), 0, 0, 0
    )  # set: read-only, nosuid, nodev; clear none
    here, recursive = -100, 0x8000
    size = ctypes.c_size_t(len(attributes))
    _checked(libc.syscall(MOUNT_SETATTR, here, where.encode(), recursive, attributes, size), f"read-only {where}")


def new_root(shown: list[tuple[str, str]], empty: list[str]) -> None:
    """A file system of these (source, place) alone, read-only, with fresh /proc and a few devices.

    A place without a source is empty: it covers what a place above it would show.
    """
    old, new = "/tmp", "/tmp/root"
    # /tmp is covered in a moment, and what lies there is reached by its descriptor.
    opened = [(source and os.open(source, os.O_PATH), place) for source, place in [*shown, *((d, d) for d in DEVICES)]]
    mount("tmpfs", old, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    os.mkdir(new)
    mount("tmpfs", new, "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
    os.mkdir(f"{new}/old")
    for fd, place in opened:
        if fd == "":
            mount("tmpfs", new + place, "tmpfs", NOSUID | NODEV | RDONLY, "size=4k,mode=755")
            continue
        source = f"/proc/self/fd/{fd}"
        if os.path.isdir(source):
            os.makedirs(new + place, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(new + place), exist_ok=True)
            open(new + place, "x").close()
        mount(source, new + place, None, BIND | REC)  # what is mounted below it may not be taken away from it
        read_only(new + place, device=place.startswith("/dev/"))
        os.close(fd)
    for place in (*empty, "/proc", "/tmp"):
        os.makedirs(new + place, exist_ok=True)
    for link in ("lib", "lib64", "bin"):
        if os.path.islink(f"/{link}") and not os.path.lexists(f"{new}/{link}"):
            os.symlink(f"usr/{link}", f"{new}/{link}")
    for place in empty:
        mount("tmpfs", new + place, "tmpfs", NOSUID | NODEV, "size=64m,nr_inodes=4096")
    mount("proc", f"{new}/proc", "proc", NOSUID | NODEV | NOEXEC)
    _checked(libc.pivot_root(new.encode(), f"{new}/old".encode()), "pivot_root")
    os.chdir("/")
    _checked(libc.umount2(b"/old", DETACH), "umount")
    os.rmdir("/old")
    mount(None, "/", None, REMOUNT | RDONLY | NOSUID | NODEV)


def confine(shown: list[tuple[str, str]], empty: list[str]) -> None:
    """Go on as process 1 of namespaces of its own that show these files only; the caller's process stays and waits.

    For hosts without bubblewrap.
    """
    own_namespaces()
    die_with_parent()
    if pid := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    die_with_parent()
    new_root(shown, empty)
    os.setsid()
    no_new_rights()


def no_new_rights() -> None:
    """No capability, none by a program with the set-user bit, and no look into its memory by others."""
    no_new_privs()
    for capability in range(64):
        libc.prctl(CAPBSET_DROP, capability, 0, 0, 0)
    header, data = struct.pack("=Ii", 0x20080522, 0), b"\0" * 24
    _checked(libc.capset(header, data), "capset")


def own_keyring() -> None:
    """Leave the keys of whoever started this, such as Kerberos tickets: no namespace does that, and seccomp may be missing."""
    if number := KEYCTL.get(os.uname().machine):
        libc.syscall(number, JOIN_SESSION_KEYRING, None)  # which fails where the kernel keeps no keys


def limits(memory: int, file: int, processes: int, cpu: int, files: int = 256) -> None:
    """Bytes of address space and of one file, processes, seconds of CPU, open files."""
    for what, value in (
        (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, file), (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_NOFILE, files), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def tasks() -> int:
    """Processes and threads of this user that can be seen: RLIMIT_NPROC counts them all."""
    count, user = 0, os.getuid()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == user:
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:  # gone meanwhile
            pass
    return count


class _Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def seccomp(also: Sequence[str] = ()) -> None:
    """Refuse the system calls of `DENIED`, new namespaces by whatever name, and limits of others. OSError without libseccomp.

    also  more system calls
    """
    lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_rule_add_array.argtypes = (
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Compare),
    )  # fmt: skip
    lib.seccomp_load.argtypes = lib.seccomp_release.argtypes = (ctypes.c_void_p,)
    number = lambda name: lib.seccomp_syscall_resolve_name(name.encode())  # noqa: E731
    context = lib.seccomp_init(ctypes.c_uint32(SECCOMP_ALLOW))
    if not context:
        raise OSError("libseccomp does not start")
    try:
        for name in (*DENIED, *also):
            if number(name) != -1:
                lib.seccomp_rule_add_array(context, SECCOMP_EPERM, number(name), 0, None)
        lib.seccomp_rule_add_array(context, SECCOMP_ENOSYS, number("clone3"), 0, None)  # its flags lie in memory
        others = _Compare(0, 1, 0, 0)  # prlimit's first argument != 0
        lib.seccomp_rule_add_array(context, SECCOMP_EPERM, number("prlimit64"), 1, ctypes.byref(others))
        for bit in (1 << n for n in range(32) if NEW_NAMESPACE >> n & 1):
            masked = _Compare(0, 7, bit, bit)  # clone's first argument & bit == bit
            lib.seccomp_rule_add_array(context, SECCOMP_EPERM, number("clone"), 1, ctypes.byref(masked))
        if code := lib.seccomp_load(context):
            raise OSError(-code, f"seccomp: {os.strerror(-code)}")
    finally:
        lib.seccomp_release(context)


def landlock_version() -> int:
    """0 where the kernel has no Landlock."""
    return max(0, libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def landlock(readable: list[str], writable: list[str], listed: Sequence[str] = ()) -> None:
    """No file but these, no TCP, and as far as the kernel knows how, no signal and no abstract socket to others.

    listed  folders whose names may be read, in all that lies below, and no more
    """
    version = landlock_version()
    if version < 1:
        raise OSError("this kernel has no Landlock")
    every = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    read = EXECUTE | READ | LIST
    rules = struct.pack("=QQQ", every, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _checked(libc.syscall(CREATE_RULESET, rules, ctypes.c_size_t(size), 0), "Landlock")
    for path, rights in [(p, read) for p in readable] + [(p, every) for p in writable] + [(p, LIST) for p in listed]:
        fd = os.open(path, os.O_PATH)
        if not os.path.isdir(path):
            rights &= EXECUTE | WRITE | READ | (TRUNCATE if version >= 3 else 0)  # none of a folder's
        _checked(libc.syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0), f"Landlock {path}")
        os.close(fd)
    no_new_privs()
    _checked(libc.syscall(RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)
