"""Chips and slices: what a chip can do per second, what it can hold, and how chips are wired (chapter 1).

The numbers stand in `chips.py`, each with its source.
FLOPs/s, bytes/s and bytes throughout; GB is 1e9 bytes, GiB is 2**30.
"""

from collections.abc import Mapping
from dataclasses import field
from math import prod

from helpers.arguments import record

HOP = 1e-6
"""Seconds for the first byte to cross one ICI link (Austin et al. 2025, Section 2)."""
HOPS = {"tpu": HOP, "gpu": 3e-6, "trn": 3e-6}  # seconds; `Chip.hop` has the sources


@record
class Chip:
    """One accelerator.

    name            "v5e", "H100", …
    kind            "tpu", "gpu", or "trn": a Trainium of AWS
    flops           dense FLOPs/s (OPs/s for integers) by dtype: {"bf16": 1.97e14, "int8": 3.94e14}
    hbm_bytes       bytes of HBM
    hbm_bandwidth   bytes/s between HBM and the chip
    fast_bytes      bytes of VMEM (TPU), of shared memory over all SMs or CUs (GPU), of SBUF (Trainium)
    fast_bandwidth  bytes/s of it, or None where nobody publishes it
    link_bandwidth  bytes/s of one ICI link in ONE direction; without a torus, of all its links together in one direction
    axes            dimensions of the torus (2 or 3); 0 for chips that make a domain, most of them behind a switch
    pod             chips along each axis of the largest pod; those of a domain
    cores           TensorCores (TPU), SMs or CUs (GPU) or NeuronCores of one chip
    chips_per_host  chips that share a host, its PCIe root and its network cards
    pcie_bandwidth  bytes/s between host and this chip, one direction, or None
    dcn_bandwidth   bytes/s of data-centre network for this chip, one direction
    watts           most power that it may draw, or None where nobody publishes it
    sources         where each field was read
    names           what its cores and its links are called
    neighbours      chips of its domain that it has links to, where no switch joins them; 0 behind a switch, and where `axes` says it
    switch_adds     whether its switch adds up what chips send
    clock_flops     dense bf16 FLOPs of a core in a clock cycle, or None where nobody publishes the clock
    clock_exps      exponentials of a core in a clock cycle, or None
    l2_bytes        bytes of its L2, or None where this course needs none
    hbm_cycles      clock cycles until a load from HBM answers, or None where it was not measured
    generation      whose measured shares of peak are its own: "hopper", "v5", …; "" where no step was measured on such a chip
    lender          the chip whose shares of peak it borrows where it has no generation
    links           generation of its NVLink or Infinity Fabric, of which collectives were measured; "" of others
    serving         whether serving was measured on it
    attains         share of its bf16 FLOPs/s that its maker's own products reach, where he says so and it is less than of others
    streams         the same of HBM's bytes/s
    label           what a menu calls it; "" where that is its name
    menu            in which menus it stands: "all", those of the "planner", or "" none
    """

    name: str
    kind: str
    flops: Mapping[str, float] = field(hash=False)
    hbm_bytes: float
    hbm_bandwidth: float
    fast_bytes: float
    fast_bandwidth: float | None
    link_bandwidth: float
    axes: int
    pod: tuple[int, ...]
    cores: int
    chips_per_host: int
    pcie_bandwidth: float | None
    dcn_bandwidth: float
    watts: float | None
    sources: Mapping[str, str] = field(hash=False)
    names: tuple[str, str]
    neighbours: int = 0
    switch_adds: bool = False
    clock_flops: float | None = None
    clock_exps: float | None = None
    l2_bytes: float | None = None
    hbm_cycles: float | None = None
    generation: str = ""
    lender: str = ""
    links: str = ""
    serving: bool = False
    attains: float = 1.0
    streams: float = 1.0
    label: str = ""
    menu: str = ""

    @property
    def hop(self) -> float:
        """Seconds that one step of a collective takes at least, however few its bytes.

        TPU: a microsecond over an ICI link (Austin et al. 2025, Section 2). GPU: three, a usual figure of a step of NCCL's rings;
        inside of a training step it takes longer (`costs.training.operation_seconds`). Trainium: as a GPU, for want of a figure.
        """
        return HOPS[self.kind]

    @property
    def sides(self) -> tuple[int, ...]:
        """Chips along each axis of the largest pod, the longest first."""
        return tuple(sorted(self.pod, reverse=True))

    def rate(self, dtype: str = "bf16") -> float:
        """Dense FLOPs/s at `dtype`; ValueError if the chip has no published rate for it.

        >>> chip("v5e").rate("int8")
        394000000000000.0
        """
        if dtype not in self.flops:
            raise ValueError(f"{self.name} has no published rate for {dtype!r}; it has {', '.join(self.flops)}")
        return self.flops[dtype]

    def alpha_hbm(self, dtype: str = "bf16") -> float:
        """FLOPs that the chip does while one byte comes from HBM: C/W.

        >>> round(chip("H100").alpha_hbm())
        295
        """
        return self.rate(dtype) / self.hbm_bandwidth

    def alpha_ici(self, axes: int = 1, dtype: str = "bf16") -> float:
        """FLOPs per byte over `axes` torus axes, both directions of each at once.

        >>> chip("v5p").alpha_ici(), chip("v5p").alpha_ici(3)
        (2550.0, 850.0)
        """
        if self.axes == 0:
            raise ValueError(f"{self.name} is one of a domain of {self.pod[0]}, not of a torus: it has no ICI axes")
        if not 1 <= axes <= self.axes:
            raise ValueError(f"{self.name} has {self.axes} torus axes, so 1 to {self.axes}, not {axes}")
        return self.rate(dtype) / (2 * self.link_bandwidth * axes)

    def alpha_dcn(self, dtype: str = "bf16") -> float:
        """FLOPs per byte over the data-centre network, one direction.

        >>> chip("v5p").alpha_dcn()
        73440.0
        """
        return self.rate(dtype) / self.dcn_bandwidth


@record
class Slice:
    """Chips wired as a torus: `Slice(chip("v5e"), (4, 4))`.

    wraps  for each axis, whether its ends are joined to a ring.
           The default is the vendor's rule: on v3, v5e and v6e an axis wraps when it spans the pod (32 or 16 chips);
           on v4p, v5p and v7, slices are built of 4x4x4 cubes joined by optical switches,
           so all axes wrap when every one is a multiple of 4, and none of a smaller slice does.

    >>> Slice(chip("v5e"), (4, 4)).wraps, Slice(chip("v5e"), (8, 16)).wraps
    ((False, False), (False, True))
    >>> Slice(chip("v5p"), (4, 4, 8)).wraps, Slice(chip("v5p"), (2, 2, 4)).wraps
    ((True, True, True), (False, False, False))
    """

    chip: Chip
    shape: tuple[int, ...]
    wraps: tuple[bool, ...] | None = None

    def __post_init__(self):
        if self.chip.axes and len(self.shape) != self.chip.axes:
            raise ValueError(
                f"a {self.chip.name} slice has {self.chip.axes} axes, so {self.shape} needs {self.chip.axes} sizes"
            )
        if any(not isinstance(n, int) or n < 1 for n in self.shape):
            raise ValueError(f"every axis of a slice has 1 or more chips, got {self.shape}")
        if any(n > m for n, m in zip(sorted(self.shape), sorted(self.chip.pod))):
            raise ValueError(f"{self.shape} is larger than a {self.chip.name} pod, which is {self.chip.pod}")
        if self.wraps is None:
            cubes = self.chip.axes > 2 and all(n % 4 == 0 for n in self.shape)
            rings = tuple(cubes or (self.chip.axes == 2 and n == max(self.chip.pod)) for n in self.shape)
            object.__setattr__(self, "wraps", rings)
        elif len(self.wraps) != len(self.shape):
            raise ValueError(f"wraps needs one truth value for each of the {len(self.shape)} axes, got {self.wraps}")

    @property
    def chips(self) -> int:
        """Number of chips."""
        return prod(self.shape)

    @property
    def hosts(self) -> int:
        """Hosts that these chips occupy, the last one perhaps in part.

        >>> Slice(chip("v5e"), (16, 16)).hosts, Slice(chip("v5p"), (16, 20, 28)).hosts
        (32, 2240)
        """
        return -(-self.chips // self.chip.chips_per_host)

    @property
    def cores(self) -> int:
        """TensorCores."""
        return self.chips * self.chip.cores

    @property
    def hbm_bytes(self) -> float:
        """HBM of all chips together."""
        return self.chips * self.chip.hbm_bytes

    def rate(self, dtype: str = "bf16") -> float:
        """FLOPs/s of all chips together.

        >>> f"{Slice(chip('v5p'), (16, 20, 28)).rate():.3g}"
        '4.11e+18'
        """
        return self.chips * self.chip.rate(dtype)
