"""What code inside of a sandbox tries; each line is a way out that must be closed. It prints LEAK and the name of those that are not.

`HOST` is the number of the grading process, `PROOF` a file of its user.
"""

PROBES = r"""
import ctypes, fcntl, mmap, os, platform, resource, signal, socket, struct, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
call = {"keyctl": 250, "add_key": 248, "bpf": 321, "perf": 298, "io_uring": 425, "userfaultfd": 323, "process_vm": 310,
        "pidfd_open": 434, "fsopen": 430, "open_tree": 428} if x86 else {}


def rights():
    "Capabilities that are left, or that root could get back by a program."
    header, data = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    libc.capget(header, data)
    bounds = os.getuid() == 0 and any(libc.prctl(23, c, 0, 0, 0) == 1 for c in range(40))
    return any(data.raw) or bounds or libc.prctl(39, 0, 0, 0, 0) != 1


def old_calls():
    "The 32-bit door into the kernel, which a filter for 64 bits must not leave open: int 0x80, getpid."
    if not x86:
        return False
    if not (pid := os.fork()):
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b814000000cd80c3"))
        got = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        os._exit(1 if got > 0 else 0)
    return os.waitpid(pid, 0)[1] == 256


def runs(*command):
    "Whether a program gets more than its parent."
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def shared():
    return os.listdir("/dev/shm") or open("/dev/shm/x", "w")


ways = {
    "read": lambda: open(PROOF).read(),
    "list": lambda: os.listdir(os.path.dirname(PROOF)),
    "write": lambda: open(PROOF, "a"),
    "truncate": lambda: os.truncate(PROOF, 0) or True,
    "rename": lambda: os.rename(PROOF, "x") or True,
    "link": lambda: os.link(PROOF, "x") or True,
    "remove": lambda: os.unlink(PROOF) or True,
    "chmod": lambda: os.chmod(PROOF, 0o777) or True,
    "chown": lambda: os.chown(PROOF, os.getuid(), os.getgid()) or True,
    "utime": lambda: os.utime(PROOF, (0, 0)) or True,
    "setxattr": lambda: os.setxattr(PROOF, "user.x", b"1") or True,
    "symlink": lambda: os.symlink(PROOF, "y") or open("y").read(),
    "watch": lambda: libc.inotify_init() >= 0,
    "fifo": lambda: os.mkfifo("/tmp/fifo") or True,
    "a device": lambda: os.mknod("x", 0o20666, os.makedev(1, 1)) or open("x", "rb").read(1),
    "mount": lambda: libc.mount(b"x", b"/job", b"tmpfs", 0, None) == 0 or libc.umount2(b"/proc", 2) == 0,
    "another namespace": lambda: libc.setns(0, 0) == 0 or x86 and libc.syscall(304, 3, 0, 0) >= 0,
    "terminal": lambda: any(fcntl.ioctl(fd, 0x5412, b"x") for fd in range(4)) or open("/dev/tty", "r+b"),
    "disk": lambda: any(os.open(f"/dev/{d}", os.O_RDONLY) for d in ("sda", "vda", "mem", "kmsg", "tty")),
    "shared memory": shared,
    "memory as a file": lambda: os.memfd_create("x"),
    "a program from memory": lambda: runs(f"/proc/self/fd/{os.memfd_create('x')}"),
    "personality": lambda: libc.personality(0x40000) != -1,
    "rights": rights,
    "32 bits": old_calls,
    "a program with rights": lambda: runs("/usr/bin/unshare", "-Ur", "true") or runs("/bin/mount", "-t", "tmpfs", "x", "/job"),
    "a program that reads": lambda: runs("/bin/cat", PROOF),
    "uid": lambda: os.setuid(0) or os.setgid(0) or os.getuid() == 0 and libc.setgroups(0, None) == 0,
    "shmget": lambda: libc.shmget(1, 4096, 0o1666) != -1,
    "shmctl": lambda: libc.shmctl(0, 14, ctypes.create_string_buffer(4096)) != -1,
    "msgget": lambda: libc.msgget(1, 0o1666) != -1,
    "semget": lambda: libc.semget(1, 1, 0o1666) != -1,
    "ptrace": lambda: any(libc.ptrace(16, p, 0, 0) == 0 for p in (HOST, os.getppid(), 1) if p != os.getpid()),
    "signal": lambda: os.kill(HOST, 0) or True,
    "limits": lambda: resource.prlimit(HOST, resource.RLIMIT_NOFILE),
    "affinity": lambda: os.sched_setaffinity(HOST, {0}) or True,
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, HOST, 19) or True,
    "its memory": lambda: open(f"/proc/{HOST}/mem", "rb"),
    "its environment": lambda: open(f"/proc/{HOST}/environ", "rb").read(),
    "its files": lambda: os.listdir(f"/proc/{HOST}/fd"),
    "group": lambda: os.getpgid(0) not in (os.getpid(), 1) and os.getsid(0) not in (os.getpid(), 1),
    "tcp": lambda: socket.create_connection(("127.0.0.1", 22), 1),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    "abstract socket": lambda: socket.socket(socket.AF_UNIX).bind("\0x") or True,
    "path socket": lambda: socket.socket(socket.AF_UNIX).connect(SOCKET) or True,
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "descriptors": lambda: [fd for fd in range(4, 256) if os.path.exists(f"/proc/self/fd/{fd}")],
    "new namespace": lambda: libc.unshare(0x10000000) == 0,
    "root": lambda: os.chroot(".") or True,
    "keys": lambda: x86 and libc.syscall(call["keyctl"], 11, -3, ctypes.create_string_buffer(4000), 4000, 0) > 0,
    **{name: (lambda n=n: libc.syscall(n, 0, 0, 0, 0, 0) >= 0) for name, n in call.items()},
}
leaks = []
for name, way in ways.items():
    try:
        if way():
            leaks.append(name)
    except (OSError, AttributeError):
        pass
"""
