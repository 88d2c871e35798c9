"""Conversion between simulations and the rows of ``simulations`` and ``clearing_schedule``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors.network.simulation_store import Failure, Simulation, StateChange
from engine.instant import to_datetime
from engine.simulation import AppliedFollowUp, FollowUpRecord, Original, SpendRequest

_decode_spend = msgspec.json.Decoder(SpendRequest).decode
_decode_record = msgspec.json.Decoder(FollowUpRecord).decode
_decode_failure = msgspec.json.Decoder(Failure).decode


def insert_columns(simulations: Sequence[Simulation]) -> list[list[Any]]:
    """Arguments of ``insert_simulations``."""
    requests = [simulation.request for simulation in simulations]
    return [
        [request.simulation_id for request in requests],
        [
            simulation.original.request.simulation_id if simulation.original else None
            for simulation in simulations
        ],
        [request.tenant_id for request in requests],
        [simulation.operation for simulation in simulations],
        [request.card_id for request in requests],
        [stored_request(request) for request in requests],
        [simulation.stan for simulation in simulations],
        [simulation.rrn for simulation in simulations],
        [simulation.network_txn_id for simulation in simulations],
        _instants([request.accepted_ms for request in requests]),
        _instants([simulation.failed_ms for simulation in simulations]),
        [_json(simulation.failure) for simulation in simulations],
    ]


def spend_values(simulation: Simulation) -> list[Any]:
    """Arguments of ``insert_active_spend``."""
    request = simulation.request
    failed_ms = simulation.failed_ms
    return [
        request.simulation_id,
        request.tenant_id,
        request.card_id,
        stored_request(request),
        simulation.stan,
        simulation.rrn,
        simulation.network_txn_id,
        to_datetime(request.accepted_ms),
        None if failed_ms is None else to_datetime(failed_ms),
        _json(simulation.failure),
    ]


def spend_columns(simulations: Sequence[Simulation]) -> list[list[Any]]:
    """Arguments of ``insert_active_spends``."""
    return [list(column) for column in zip(*map(spend_values, simulations), strict=True)]


def sale_columns(applied: Mapping[str, AppliedFollowUp]) -> list[list[Any]]:
    """Arguments of ``update_sales``; ``applied``: the last follow-up of each sale, by simulation id."""
    return [
        list(applied),
        [each.sale.open_minor for each in applied.values()],
        [each.sale.presentments for each in applied.values()],
        [each.schedule for each in applied.values()],
    ]


def change_columns(changes: Sequence[StateChange]) -> list[list[Any]]:
    """Arguments of ``record_simulations``."""
    return [
        [change.simulation_id for change in changes],
        [change.state for change in changes],
        _instants([change.sent_ms for change in changes]),
        _instants([change.decided_ms for change in changes]),
        _instants([change.failed_ms for change in changes]),
        [_json(change.failure) for change in changes],
        [change.response_code for change in changes],
        [change.approval_code for change in changes],
        [change.approved_minor for change in changes],
        [change.authorization_id for change in changes],
        [change.increase.simulation_id if change.increase else None for change in changes],
        [change.increase.amount_minor if change.increase else None for change in changes],
    ]


def recorded_of(row: Any) -> Simulation:
    """The follow-up in a row of ``find_simulations``, without its sale."""
    return Simulation(
        request=_decode_record(row["request"]),
        stan=row["stan"],
        rrn=row["rrn"],
        network_txn_id=row["network_txn_id"],
        failure=_decode_failure(row["failure"]) if row["failure"] and row["stan"] is None else None,
    )


def original_of(row: Any, prefix: str = "") -> Original:
    """The sale in the columns of ``row`` whose names begin with ``prefix``."""
    return Original(
        request=_decode_spend(row[f"{prefix}request"]),
        stan=row[f"{prefix}stan"],
        rrn=row[f"{prefix}rrn"],
        network_txn_id=row[f"{prefix}network_txn_id"],
    )


def simulation_of(row: Any) -> Simulation:
    """The simulation in ``row``, with its sale in the columns ``sale_*``."""
    decode = _decode_spend if row["operation"] == "spend" else _decode_record
    return Simulation(
        request=decode(row["request"]),
        original=original_of(row, "sale_") if row["sale_request"] else None,
        stan=row["stan"],
        rrn=row["rrn"],
        network_txn_id=row["network_txn_id"],
    )


def stored_request(request: SpendRequest) -> str:
    """JSON of a request without CVV2 and authentication values, readable as a ``SpendRequest``."""
    public = msgspec.structs.replace(request, cvv2=None, auth_value=None, threeds_ref=None)
    return msgspec.json.encode(public).decode()


def _instants(instants_ms: list[int | None]) -> list[Any]:
    return [None if at_ms is None else to_datetime(at_ms) for at_ms in instants_ms]


def _json(failure: Failure | None) -> str | None:
    return None if failure is None else msgspec.json.encode(failure).decode()
