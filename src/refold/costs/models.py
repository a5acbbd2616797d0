"""Known models, and corrections from the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import msgspec

from refold.costs.prices import Prices
from refold.data import data_table
from refold.errors import SettingError, UnknownSetting, nearest, needed_value

Overrides = Mapping[str, Mapping[str, Any]]
"""Model name → fields of `KnownModel` or `Prices`, as in the `[models]` table of the configuration."""

_DATED = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d)$")
_MODEL_FIELDS = ("window", "max_output", "temperature", "reasoning", "images")
_PRICE_FIELDS = Prices.__struct_fields__


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its provider describes it."""

    name: str
    provider: str = ""
    window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    output: Annotated[int, msgspec.Meta(ge=1)] | None = None
    prices: Prices | None = None
    temperature: bool = True
    reasoning: bool = False
    images: bool = False
    """Accepts pictures."""
    source: str = ""
    date: str = ""


def known(model: str, overrides: Overrides | None = None) -> KnownModel | None:
    """What is known about `provider:model` (or `model`): the built-in table, corrected by the configuration.
    A dated snapshot counts as its model; nothing else is guessed."""
    found = next((row for name in _spellings(model) if (row := _table().get(name))), None)
    for name in (bare_model_name(model), model):
        if overrides and name in overrides:
            found = _corrected(found or KnownModel(name=bare_model_name(model)), name, overrides[name])
    return found


def window_of(model: str, overrides: Overrides | None = None) -> int:
    """The context window of a model; `SettingError` if unknown (a guess would fold at the wrong time)."""
    row = known(model, overrides)
    if row is None or row.window is None:
        meant = nearest(bare_model_name(model), (*_table(), *(overrides or ())))
        hint = f"; did you mean {bare_model_name(meant)}?" if meant else ""
        raise SettingError(
            "window",
            f"the context window of {bare_model_name(model)!r} is unknown: pass --window N, or put "
            f'window = N under [models."{bare_model_name(model)}"] in the configuration{hint}',
        )
    return row.window


def known_models() -> tuple[KnownModel, ...]:
    return tuple(_table().values())


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same model. Dates of snapshots are ignored, and so is the provider unless
    both names have one (logs leave it out)."""
    providers = [name.partition(":")[0] for name in (one, other) if ":" in name]
    if len(providers) == 2 and providers[0] != providers[1]:
        return False
    return _spellings(one)[-1] == _spellings(other)[-1]


def bare_model_name(model: str) -> str:
    """The name without provider: `anthropic:claude-x` and `anthropic/claude-x` are both `claude-x`."""
    return model.partition(":")[2] or model if "/" not in model else model.rpartition("/")[2]


def _spellings(model: str) -> list[str]:
    name = bare_model_name(model)
    plain = _DATED.sub("", name)
    dashed = plain.replace(".", "-") if plain.startswith("claude") else plain
    return [name, plain, dashed]


@cache
def _table() -> dict[str, KnownModel]:
    data = data_table("models")
    return {
        name: _known(name, row, data["sources"].get(row["provider"], ""), data["date"])
        for name, row in data["models"].items()
    }


def _known(name: str, row: Mapping[str, Any], source: str, date: str) -> KnownModel:
    prices = {**row["price"], **{key: row[key] for key in ("long", "min_cache") if key in row}}
    fields = {"images": True, **row, "name": name, "prices": prices, "source": source, "date": date}
    return msgspec.convert(fields, KnownModel)


def _corrected(row: KnownModel, name: str, fields: Mapping[str, Any]) -> KnownModel:
    """The row corrected by the configuration: `window`, `max_output`, `input`, `output`, `cache_read` …"""
    own: dict[str, Any] = {}
    prices: dict[str, Any] = msgspec.to_builtins(row.prices) if row.prices else {"input": 0.0, "output": 0.0}
    for key, value in fields.items():
        place = f'[models."{name}"] {key}'
        if key in _MODEL_FIELDS:
            field = "output" if key == "max_output" else key
            own[field] = _valid(value, KnownModel, field, place)
        elif key in _PRICE_FIELDS:
            prices[key] = _valid(value, Prices, key, place)
            own["prices"] = prices
        else:
            raise UnknownSetting(place, (*_MODEL_FIELDS, *_PRICE_FIELDS))
    return msgspec.convert({**msgspec.structs.asdict(row), **own, "source": "configuration"}, KnownModel)


def _valid(value: Any, kind: type[msgspec.Struct], field: str, place: str) -> Any:
    type = next(info.type for info in msgspec.structs.fields(kind) if info.name == field)
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        given = "text in quotes" if isinstance(value, str) else repr(value)  # a text may be a key
        raise SettingError(place, f"{needed_value(error, type)}, not {given}") from None
