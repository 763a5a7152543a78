"""Fields of a config.json under the names that llama's has, each read as the type that it has to have (chapter 3)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .mixers import MLA

ABSENT = object()
CALLED = {int: "a whole number", bool: "true or false", str: "a word in quotes", list: "a list", dict: "an object"}
"""What JSON's values are called; a whole number is no truth value, and words are neither."""


class Fields:
    """The fields of one config.json; a dot goes into a nested one."""

    def __init__(self, values: dict, model_type: str, family: "Family"):
        self.given, self.type, self.family = values, model_type, family

    def raw(self, name: str):
        """The value as it stands, or `ABSENT`."""
        for own in (self.family.names.get(name, name), name):
            value = self.given
            for part in own.split("."):
                value = value.get(part, ABSENT) if isinstance(value, dict) else ABSENT
            if value is not ABSENT:
                break
        return value

    def get(self, name: str, default=None, kinds=int):
        """The value of a field, of one of these kinds; `default` if it is null, and if it is absent and transformers takes nothing
        for it."""
        value = self.raw(name)
        if value is ABSENT:
            return self.family.defaults.get(name, default)
        return default if value is None else self.typed(name, value, kinds)

    def typed(self, name: str, value, kinds):
        """The value, or a sentence if it is of none of these types."""
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if type(value) not in kinds:
            self.refuse(name, f"it has to be {' or '.join(CALLED[kind] for kind in kinds)}")
        return value

    def __getitem__(self, name: str) -> int:
        value = self.get(name)
        if value is None:
            raise ValueError(
                f"the config.json of a {self.type} has no {self.family.names.get(name, name)}: add it, or take one that has it"
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Whether a field is true."""
        return self.get(name, default, bool)

    def layers(self, name: str, kind=str) -> list | None:
        """A list that says something of each layer, of values of one type."""
        value = self.get(name, None, list)
        if value is None:
            return None
        for one in value:
            self.typed(name, one, kind)
        if len(value) != (L := self["num_hidden_layers"]):
            self.refuse(name, f"it names {len(value)} layers, and num_hidden_layers is {L}")
        return value

    def refuse(self, field: str, reason: str):
        """A sentence that names the field, its value where it is short, and what cannot be said."""
        value = self.raw(field)
        shown = "" if value is ABSENT or len(repr(value)) > 40 else f" {value!r}"
        raise ValueError(f"{self.family.names.get(field, field)}{shown} of this {self.type} cannot be read: {reason}")


def mixture(
    hf: Fields, E="n_routed_experts", k="num_experts_per_tok", F="moe_intermediate_size", **fields_of_moe
) -> dict:
    """Fields of a `MoE`: E, k and F by the names that the file has for them, and others with their values."""
    return {"E": hf[E], "k": hf[k], "F": hf[F], **fields_of_moe}


def latent(hf: Fields) -> MLA:
    """Latent attention, by the names that all files have for its widths."""
    names = "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"
    return MLA(hf.get("q_lora_rank"), *(hf[name] for name in names))


def few(layers: list[int]) -> str:
    """The first of them, as a sentence names them."""
    return ", ".join(map(str, layers[:4])) + (", …" if len(layers) > 4 else "")


@dataclass(frozen=True)
class Family:
    """How the config.json of one architecture is read.

    readers   of fields that do not stand below, in order
    fixed     fields of `Config` that all its models have
    names     its own names of the usual fields
    defaults  what transformers takes for an absent field
    switches  fields that switch biases on, and which
    never     fields that have to be absent or false, and why
    sized     its widths stand in the file once for all layers
    four_wide  an MLP whose width is not given is 4·hidden_size wide
    """

    readers: tuple[Callable[[Fields], dict], ...]
    fixed: dict
    names: dict = field(default_factory=dict)
    defaults: dict = field(default_factory=dict)
    switches: dict = field(default_factory=dict)
    never: dict = field(default_factory=dict)
    sized: bool = True
    four_wide: bool = False


def family(*readers, **fixed_fields) -> Family:
    """An architecture with these readers; `fixed_fields` stand beside those of its file."""
    own = {name: fixed_fields.pop(name) for name in Family.__dataclass_fields__ if name in fixed_fields}
    return Family(readers, fixed_fields, **own)
