"""One function per promise; each gives its figures and whether the promise holds."""

import copy
import json
import random
from collections import Counter
from statistics import median
from typing import Any

from agent import streams
from agent.errors import TheirFault
from agent.streams.closed_loop import Round
from bench.streams import golden, loops
from bench.streams.referee import dominates, faults, score

Line = dict[str, Any]
Figures = dict[str, object]

STRATEGIES = ("none", "min_traffic", "balance_subtopology")
WORST_SHOWN = 8


def engine_actives(shots: list[Line], _loops: list[Line]) -> Figures:
    """Count lines on which actives cost the optimum."""
    equal = total = 0
    for line in shots:
        for strategy in STRATEGIES[1:]:
            optimum = line.get("optimum")
            if not optimum or f"{strategy}_stateful" not in optimum:
                continue
            answer = streams.answer(
                golden.document(line, "engine", strategy, initial=(line["initial_active"], None))
            )
            certificate: Any = answer["certificate"]
            cost = (certificate["cost_active_stateful"], certificate["cost_active_stateless"])
            best = (optimum[f"{strategy}_stateful"], optimum[f"{strategy}_stateless"])
            total += 1
            equal += cost == best
    return {"holds": equal == total, "cost equal to the optimum": f"{equal} of {total}"}


def engine_standbys(shots: list[Line], _loops: list[Line]) -> Figures:
    """Compare standbys, actives staying: the flow with the LP, both options with Kafka."""
    found: Counter[str] = Counter()
    for line in shots:
        optimum, kafka = line.get("optimum"), line["kafka"].get("engine_standby/min_traffic")
        if not optimum or not kafka:
            continue
        # With a strategy that has no say for actives they stay: their optimum is handed in.
        for option in ("flow", "swap"):
            placed = _standbys(line, option)
            away, cost = _standby_cost(line, placed)
            kafka_away, kafka_cost = _standby_cost(line, kafka["standby"])
            found[f"{option}, lines"] += 1
            found[f"{option}, traffic above Kafka's"] += away > kafka_away
            found[f"{option}, cost above Kafka's"] += cost > kafka_cost
            if option == "flow":
                found["flow, LP optimum reached"] += cost == optimum["standby_cost_lp"]
    above = sum(found[key] for key in found if "above" in key)
    reached = found["flow, LP optimum reached"] == found["flow, lines"]
    return {"holds": above == 0 and reached, **{key: found[key] for key in sorted(found)}}


def _standbys(line: Line, option: str) -> list[list[int]]:
    """Optimise standbys alone: traffic of sources is left out, so actives have no reason to go."""
    document = golden.document(
        line,
        "engine",
        "min_traffic",
        initial=(line["initial_active"], line["initial_standby"]),
        standby_optimizer=option,
    )
    everywhere = [list(line["racks"])]
    document["topics"].append({"name": "everywhere", "partitions": everywhere})
    for task in document["tasks"]:
        task["source"] = [["everywhere", 0]]
    return golden.placement(line, streams.answer(document))[1]


def _standby_cost(line: Line, placed: list[list[int]]) -> tuple[int, int]:
    """Give cross-rack changelog partitions and the KIP's cost against the start."""
    config, clients, topics = line["config"], line["clients"], line["topics"]
    traffic = 10 if config["traffic_cost"] is None else config["traffic_cost"]
    overlap = 1 if config["non_overlap_cost"] is None else config["non_overlap_cost"]
    away = new = 0
    for t, copies in enumerate(placed):
        for c in copies:
            away += sum(
                clients[c]["rack"] not in topics[topic]["partitions"][p]
                for topic, p in line["tasks"][t]["changelog"]
            )
            new += c not in line["initial_standby"][t]
    return away, traffic * away + overlap * new


def high_availability(shots: list[Line], loops_: list[Line]) -> Figures:
    """Count placements equal to Kafka's, copy for copy."""
    found: Counter[str] = Counter()
    for line in shots:
        for strategy in STRATEGIES:
            kafka = line["kafka"].get(f"ha/{strategy}")
            if kafka:
                answer = streams.answer(golden.document(line, "high-availability", strategy))
                found["instances"] += 1
                found["instances equal"] += _same(line, answer, kafka)
    for line in loops_:
        strategy = line["simulation"]["strategy"]
        for step in line["kafka"]["rounds"]:
            document = golden.document(line, "high-availability", strategy, clients=step["clients"])
            found["rounds"] += 1
            found["rounds equal"] += _same(line, streams.answer(document), step)
        replayed = loops.run(line, "high-availability")
        found["loops"] += 1
        found["loops replayed to the same rounds"] += [
            golden.placement(line, step.answer) for step in replayed
        ] == [golden.recorded(line, step) for step in line["kafka"]["rounds"]]
    holds = (
        found["instances"] == found["instances equal"]
        and found["rounds"] == found["rounds equal"]
        and found["loops"] == found["loops replayed to the same rounds"]
    )
    return {"holds": holds, **found}


def _same(line: Line, answer: dict[str, object], kafka: dict[str, Any]) -> bool:
    return (
        golden.placement(line, answer) == golden.recorded(line, kafka)
        and answer["followup"] == kafka["followup"]
    )


def sticky(shots: list[Line], _loops: list[Line]) -> Figures:
    """Compare cost against previous owners, and loads, with Kafka's sticky assignor."""
    found: Counter[str] = Counter()
    worse: list[str] = []
    for line in shots:
        for strategy in STRATEGIES:
            kafka = line["kafka"].get(f"sticky/{strategy}")
            if not kafka:
                continue
            answer = streams.answer(golden.document(line, "sticky", strategy))
            ours, theirs = golden.placement(line, answer), golden.recorded(line, kafka)
            a, b = score(line, *ours), score(line, *theirs)
            found["lines"] += 1
            found["placement equal"] += ours == theirs
            found["illegal"] += bool(faults(line, answer, len(line["clients"])))
            bad = []
            if _sticky_cost(line, a) > _sticky_cost(line, b):
                bad.append("cost")
            if a.load_max > b.load_max + 1e-9:
                bad.append("load")
            if a.load_spread > b.load_spread + 1e-9:
                bad.append("spread")
            tagged = ", tags" if line["config"]["rack_aware_assignment_tags"] else ""
            found.update(f"{measure} above Kafka's{tagged}" for measure in bad)
            if bad:
                worse.append(f"{line['id']} {strategy}: {', '.join(bad)}")
    holds = not worse and not found["illegal"]
    return {"holds": holds, **found, "worse": worse[:WORST_SHOWN]}


def _sticky_cost(line: Line, found: Any) -> int:
    config = line["config"]
    traffic = 1 if config["traffic_cost"] is None else config["traffic_cost"]
    overlap = 10 if config["non_overlap_cost"] is None else config["non_overlap_cost"]
    away = found.cross_rack_active + found.cross_rack_standby
    return int(traffic * away + overlap * (found.moved + found.created))


def plimsoll_single(shots: list[Line], loops_: list[Line]) -> Figures:
    """Compare one assignment with Kafka's of the same previous state, in every measure."""
    found: Counter[str] = Counter()
    worse: list[str] = []

    def compare(line: Line, document: golden.Document, kafka: dict[str, Any], name: str) -> None:
        answer = streams.answer(document)
        live = step.get("clients") if (step := kafka) else None
        ours = score(line, *golden.placement(line, answer), clients=live)
        theirs = score(line, *golden.recorded(line, kafka), clients=live)
        bad = dominates(ours, theirs)
        if faults(line, answer, len(document["clients"])):
            bad.append("illegal")
        found["assignments"] += 1
        found["better in a measure"] += bool(dominates(theirs, ours))
        found.update(f"worse: {measure}" for measure in bad)
        if bad:
            worse.append(f"{name}: {', '.join(bad)}")

    for line in shots:
        for strategy in STRATEGIES:
            kafka = line["kafka"].get(f"ha/{strategy}")
            if kafka:
                document = golden.document(line, "plimsoll", strategy)
                compare(line, document, kafka, f"{line['id']} {strategy}")
    for line in loops_:
        strategy = line["simulation"]["strategy"]
        for kafka in line["kafka"]["rounds"]:
            document = golden.document(line, "plimsoll", strategy, clients=kafka["clients"])
            name = f"{line['id']} event {kafka['event']} round {kafka['round']}"
            compare(line, document, kafka, name)
    return {"holds": not worse, **found, "worse": worse[:WORST_SHOWN]}


def plimsoll_loops(_shots: list[Line], loops_: list[Line]) -> Figures:
    """Compare rounds to converge and what is restored, from the first event to the last.

    The two loops soon stand in different states, so each event is also settled by both from ours.
    """
    found: Counter[str] = Counter()
    worse: list[str] = []
    for line in loops_:
        kafka, settled = loops.run(line, "high-availability"), list(loops.both_from_ours(line))
        ours = [step for mine, _ in settled for step in mine]
        theirs_rounds = loops.rounds_to_converge(kafka)
        our_rounds = [loops.settled_after(mine) for mine, _ in settled]
        for event, (a, b) in enumerate(zip(our_rounds, theirs_rounds, strict=True)):
            found["events"] += 1
            found["events, never settled, ours"] += a == loops.NEVER
            found["events, never settled, Kafka"] += b == loops.NEVER
            found["events, more rounds than Kafka"] += a > b
            if a > b:
                worse.append(f"{line['id']} event {event}: {a} rounds, Kafka {b}")
        found["rounds, ours"] += len(ours)
        found["rounds, Kafka"] += len(kafka)
        a, b = loops.restored(ours), loops.restored(kafka)
        found["offsets restored, ours"] += a
        found["offsets restored, Kafka"] += b
        found["loops"] += 1
        found["loops, more rounds in all than Kafka"] += sum(our_rounds) > sum(theirs_rounds)
        found["loops, more restored than Kafka"] += a > b
        if a > b:
            worse.append(f"{line['id']}: restored {a}, Kafka {b}")
        for mine, kafka_s in settled:
            slower = loops.settled_after(mine) > loops.settled_after(kafka_s)
            found["events from the same state, more rounds"] += slower
            more = loops.restored(mine) > loops.restored(kafka_s)
            found["events from the same state, more restored"] += more
        found["rounds to converge, most"] = max(
            found["rounds to converge, most"], *(n for n in our_rounds if n < loops.NEVER), 0
        )
    return {"holds": not worse, **found, "worse": worse[:WORST_SHOWN]}


def plimsoll_unequal(_shots: list[Line], loops_: list[Line]) -> Figures:
    """Give tasks of the recorded loops log-normal loads; compare how level each event ends.

    The bounds are the mean, or the heaviest task on the widest client.
    """
    over: dict[str, list[float]] = {name: [] for name in ("copies", "actives")}
    kafka_over: dict[str, list[float]] = {name: [] for name in over}
    found: Counter[str] = Counter()
    for number, line in enumerate(loops_):
        rng = random.Random(number)
        loads = [rng.lognormvariate(0, 0.7) for _ in line["tasks"]]
        loaded = {
            **line,
            "tasks": [
                {**task, "load": load} for task, load in zip(line["tasks"], loads, strict=True)
            ],
        }
        ours, kafka = loops.run(loaded, "plimsoll"), loops.run(loaded, "high-availability")
        for rounds, into in ((ours, over), (kafka, kafka_over)):
            for last in loops.last_rounds(rounds):
                for name, ratio in _over_bounds(last).items():
                    into[name].append(ratio)
        our_rounds = loops.rounds_to_converge(ours)
        found["events"] += len(our_rounds)
        found["events, never settled, ours"] += our_rounds.count(loops.NEVER)
        found["events, never settled, Kafka"] += loops.rounds_to_converge(kafka).count(loops.NEVER)
        found["rounds, ours"] += len(ours)
        found["rounds, Kafka"] += len(kafka)
        found["offsets restored, ours"] += loops.restored(ours)
        found["offsets restored, Kafka"] += loops.restored(kafka)
    figures: Figures = dict(found)
    for name, ratios in over.items():
        figures[f"load of {name} over its bound, ours"] = _spread(ratios)
        figures[f"load of {name} over its bound, Kafka"] = _spread(kafka_over[name])
    better = all(max(over[n]) <= max(kafka_over[n]) for n in over)
    better &= all(median(over[n]) <= median(kafka_over[n]) for n in over)
    better &= found["events, never settled, ours"] <= found["events, never settled, Kafka"]
    return {"holds": better, **figures}


def _over_bounds(last: Round) -> dict[str, float]:
    """Give the highest load per thread over its bound, for all copies and for actives."""
    threads = {client["id"]: client["threads"] for client in last.document["clients"]}
    load = {task["id"]: task["load"] for task in last.document["tasks"]}
    active, copies = dict.fromkeys(threads, 0.0), dict.fromkeys(threads, 0.0)
    for task, client in last.answer["active"].items():
        active[client] += load[task]
        copies[client] += load[task]
    for task, clients in last.answer["standby"].items():
        for client in clients:
            copies[client] += load[task]
    heaviest = max(load.values()) / max(threads.values())
    found = {}
    for name, sums in (("copies", copies), ("actives", active)):
        bound = max(sum(sums.values()) / sum(threads.values()), heaviest)
        found[name] = max(sums[client] / threads[client] for client in threads) / bound
    return found


def _spread(ratios: list[float]) -> str:
    return f"median {median(ratios):.3f}, worst {max(ratios):.3f}"


def determinism(shots: list[Line], _loops: list[Line]) -> Figures:
    """Shuffle tasks, clients and topics, and compare bytes."""
    rng = random.Random(20)
    same = total = 0
    for line in shots[:: max(1, len(shots) // 40)]:
        for assignor in ("engine", "high-availability", "sticky", "plimsoll"):
            initial = (line["initial_active"], None) if "initial_active" in line else None
            if assignor == "engine" and initial is None:
                continue
            document = golden.document(line, assignor, "min_traffic", initial=initial)
            other = copy.deepcopy(document)
            for part in ("tasks", "clients", "topics"):
                rng.shuffle(other[part])
            total += 1
            same += _text(streams.answer(document)) == _text(streams.answer(other))
    return {"holds": same == total, "same bytes": f"{same} of {total}"}


def _text(answer: dict[str, object]) -> str:
    return json.dumps({key: value for key, value in answer.items() if key != "elapsed_ms"})


def bad_input(shots: list[Line], _loops: list[Line]) -> Figures:
    """Break a good document in every way that is named, and look for a named refusal."""
    line = next(shot for shot in shots if len(shot["clients"]) > 1 and "initial_active" in shot)
    good = golden.document(line, "engine", "min_traffic", initial=(line["initial_active"], None))
    task, stranger = good["tasks"][0]["id"], "00000000-0000-0000-0000-00000000dead"

    def two_places(d: golden.Document) -> None:
        for client in d["clients"]:
            client["prev_active"], client["prev_standby"] = [task], []

    def unknown_client(d: golden.Document) -> None:
        d["initial"]["active"][task] = stranger

    def unassigned(d: golden.Document) -> None:
        del d["initial"]["active"][task]

    def beside_itself(d: golden.Document) -> None:
        d["initial"]["standby"] = {task: [d["initial"]["active"][task]]}

    def negative_lag(d: golden.Document) -> None:
        d["clients"][0]["lags"] = {task: -7}

    def unknown_partition(d: golden.Document) -> None:
        d["tasks"][0]["source"] = [["nowhere", 0]]

    refused = {}
    for name, spoil in (
        ("task in two places", two_places),
        ("unknown client", unknown_client),
        ("task of nobody", unassigned),
        ("standby beside its active", beside_itself),
        ("negative lag", negative_lag),
        ("unknown partition", unknown_partition),
    ):
        document = copy.deepcopy(good)
        spoil(document)
        try:
            streams.answer(document)
        except TheirFault as fault:
            refused[name] = str(fault)
    rackless = copy.deepcopy(good)
    rackless["clients"][0]["rack"] = None
    answer = streams.answer(rackless)
    certificate: Any = answer["certificate"]
    untouched = answer["active"] == dict(sorted(good["initial"]["active"].items(), key=_task_key))
    gate = untouched and not certificate["rack_aware"]
    return {
        "holds": len(refused) == 6 and gate,
        **refused,
        "missing rack": certificate["rack_missing"],
    }


def _task_key(item: tuple[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in item[0].split("_"))
