"""What a machine offers to lock answers in, which walls that makes, what is missing, and how to get it.

>>> Host(user_namespaces=False, bubblewrap=False, landlock=0, seccomp=True, cgroup="", root=False).refusal
'This host has neither user namespaces nor Landlock 6: answers could read and write what its user can.'
"""

from dataclasses import dataclass

CONTAINER = "the course's container (docker compose run --rm course make grade, from a clone)"
ELSEWHERE = "Grading a class needs Linux: on this system the checks in a learner's notebook work."
NAMESPACES = (
    "allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1 on older Debian,"
    " sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu 24.04 and newer,"
    " and in a container its options seccomp=unconfined, apparmor=unconfined and systempaths=unconfined"
)
UNSAFE = (
    "COURSE_SANDBOX=off grades without walls, so that any answer can read, change and send away all that you can,"
    " the gradebook and your other files too."
)


@dataclass(frozen=True)
class Host:
    """What this machine offers."""

    user_namespaces: bool
    bubblewrap: bool
    landlock: int
    seccomp: bool
    cgroup: str  # folder for groups of our own: "v1", a path of v2, or ""
    root: bool  # RLIMIT_NPROC does not bind this user
    linux: bool = True

    @property
    def level(self) -> str:
        """How processes are isolated: "bubblewrap", "namespaces", "landlock" or ""."""
        if self.user_namespaces:
            return "bubblewrap" if self.bubblewrap else "namespaces"
        return "landlock" if self.landlock >= 6 and self.seccomp else ""

    @property
    def walls(self) -> str:
        """Which walls stand, and what is missing, for a person who grades: one line, and one more for each thing missing.

        >>> Host(True, True, 7, True, "v1", root=False).walls
        'Walls: user namespaces (bubblewrap), seccomp, a cgroup for memory and processes.'
        """
        first = {"bubblewrap": "user namespaces (bubblewrap)", "namespaces": "user namespaces", "landlock": "Landlock"}
        found = [first[self.level], *(["seccomp"] if self.seccomp else [])]
        found += ["a cgroup for memory and processes"] if self.cgroup else ["limits of each process"]
        return "\n".join([f"Walls: {', '.join(found)}.", *(f"Missing: {m}" for m in self.missing)])

    @property
    def missing(self) -> list[str]:
        """What full walls would have besides, what an answer can do without it, and how to get it: a sentence each."""
        found = []
        if not self.user_namespaces:
            found.append(
                "user namespaces. An answer can see that other files and processes exist, and its disk is limited by"
                f" looking at it. To have them, {NAMESPACES}."
            )
            if not self.root and not self.cgroup:
                found.append("a limit of an answer's own processes: they are counted with all others of this user.")
        if not self.seccomp:
            found.append(
                "libseccomp. Every system call is open to an answer, so a fault in the kernel is easier to reach."
                " To have it: sudo apt-get install libseccomp2."
            )
        if not self.cgroup:
            found.append(
                "a cgroup. Memory is limited for each process of an answer, so many of them can fill the machine's."
                " To have one where systemd runs (nobody has tried it): systemd-run --user --scope make grade."
            )
        return found

    @property
    def refusal(self) -> str | None:
        """Why nothing should be graded here, or None."""
        if not self.linux:
            return ELSEWHERE
        if not self.level and self.landlock >= 6:
            return "This host has no user namespaces and no libseccomp: Landlock alone leaves the network open."
        if not self.level:
            return (
                "This host has neither user namespaces nor Landlock 6: answers could read and write what its user can."
            )
        if self.root and not self.cgroup:
            return "Root without a cgroup cannot limit the processes of an answer: grade as another user."
        return None

    @property
    def advice(self) -> str:
        """How to get walls where nothing is graded."""
        if not self.linux:
            return f"Use {CONTAINER}, WSL 2 or a virtual machine with Linux."
        if self.level:
            return (
                f"As another user: sudo -u NAME make grade, in a container the option --user 1000; or use {CONTAINER}."
            )
        package = "" if self.seccomp else "install libseccomp (sudo apt-get install libseccomp2), or "
        kernel = " take Linux 6.12 or newer, which has Landlock 6, with libseccomp2," if self.landlock < 6 else ""
        return f"To get walls, {package}{NAMESPACES}; or{kernel} use {CONTAINER}."

    @property
    def refused(self) -> str | None:
        """The refusal, the ways out, and what the unsafe one means; None where answers can be graded."""
        return self.refusal and f"{self.refusal} {self.advice} {UNSAFE}"
