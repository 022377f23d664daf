"""What `agent.streams` gives beside what Kafka's own classes gave for the same input."""

from agent import streams
from bench.streams import golden, rows


def test_engine_actives_cost_the_optimum(instances: list[golden.Line]) -> None:
    """Actives cost the optimum for both strategies, stateful and stateless."""
    figures = rows.engine_actives(instances, [])
    assert figures["holds"], figures


def test_engine_standbys_reach_the_lp_and_never_cost_more_than_kafka(
    instances: list[golden.Line],
) -> None:
    """The flow reaches the LP optimum of the frozen counts; neither option is above Kafka's."""
    figures = rows.engine_standbys(instances, [])
    assert figures["holds"], figures


def test_high_availability_places_every_copy_as_kafka(
    instances: list[golden.Line], closed_loops: list[golden.Line]
) -> None:
    """Every placement and follow-up is Kafka's, and closed loops replay to the same rounds."""
    figures = rows.high_availability(instances, closed_loops)
    assert figures["holds"], figures


def test_sticky_without_racks_places_every_copy_as_kafka(instances: list[golden.Line]) -> None:
    """Where no rack strategy is set, the sticky placement is Kafka's, copy for copy."""
    for line in instances:
        answer = streams.answer(golden.document(line, "sticky", "none"))
        kafka = golden.recorded(line, line["kafka"]["sticky/none"])
        assert golden.placement(line, answer) == kafka, line["id"]


def test_sticky_is_never_above_kafka_in_cost_or_load(instances: list[golden.Line]) -> None:
    """With any rack strategy, cost, highest load and spread are no more than Kafka's sticky."""
    figures = rows.sticky(instances, [])
    assert figures["holds"], figures


def test_plimsoll_is_in_no_measure_worse_than_kafka(
    instances: list[golden.Line], closed_loops: list[golden.Line]
) -> None:
    """On the same previous state, load, cross-rack, cold moves and shared racks are no worse."""
    figures = rows.plimsoll_single(instances, closed_loops)
    assert figures["holds"], figures


def test_plimsoll_settles_sooner_and_restores_less_overall(
    closed_loops: list[golden.Line],
) -> None:
    """Over all closed loops rounds and restored offsets are below Kafka's, and all settle."""
    figures = rows.plimsoll_loops([], closed_loops)
    assert figures["events, never settled, ours"] == 0
    for measure in ("rounds", "offsets restored"):
        ours, kafka = figures[f"{measure}, ours"], figures[f"{measure}, Kafka"]
        assert isinstance(ours, int)
        assert isinstance(kafka, int)
        assert ours < kafka


def test_same_bytes_for_any_order_of_the_input(instances: list[golden.Line]) -> None:
    """Tasks, clients and topics in any order give the same bytes."""
    figures = rows.determinism(instances, [])
    assert figures["holds"], figures


def test_bad_input_is_refused_by_name(instances: list[golden.Line]) -> None:
    """Each kind of bad input is refused with its path; a missing rack shuts the KIP's gate."""
    figures = rows.bad_input(instances, [])
    assert figures["holds"], figures
