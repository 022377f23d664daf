package io.plimsoll.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.plimsoll.assign.Intent;
import io.plimsoll.assign.Repair.Lead;
import io.plimsoll.control.Json;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.streams.processor.TaskId;
import org.junit.jupiter.api.Test;

class StateRecordTest {
  /** The record is, byte for byte, what docs/plugin-java.md says. */
  @Test
  void golden() {
    Fake fake = new Fake(2, 1);
    fake.join("a").rack = "r1";
    fake.join("b");
    fake.instances.get("a").active.add(new TaskId(1, 0));
    fake.instances.get("a").lags.put(new TaskId(1, 0), -2L);
    Application application = Application.of(fake);
    byte[] bytes =
        StateRecord.encode(
            "app",
            7,
            application,
            NextStep.towards(Wanted.of(null, Lead.OWNERS, application, Intent.NONE), application));
    String a = fake.instances.get("a").processId().id().toString();
    String b = fake.instances.get("b").processId().id().toString();
    String golden =
        """
        {"v":1,"ms":7,"group":"app","kind":"streams","protocol":"classic","assignor":"plimsoll","state":"Stable",
        "members":[
        {"stable_id":"a","member_id":"A","client_id":"a","instance_id":null,"host":"","rack":"r1","topics":[],"owned":{}},
        {"stable_id":"b","member_id":"B","client_id":"b","instance_id":null,"host":"","rack":null,"topics":[],"owned":{}}],
        "topics":{"in0":{"partitions":1,"racks":[["r1"]]},"in1":{"partitions":1,"racks":[["r1"]]},"log1":{"partitions":1,"racks":[["r1"]]}},
        "streams":{
        "config":{"assignor":"plimsoll","rack_aware_strategy":"none","traffic_cost":null,"non_overlap_cost":null,
        "num_standby_replicas":1,"max_warmup_replicas":2,"acceptable_recovery_lag":10000,"rack_aware_assignment_tags":[]},
        "topics":[{"name":"in0","partitions":[["r1"]]},{"name":"in1","partitions":[["r1"]]},{"name":"log1","partitions":[["r1"]]}],
        "tasks":[{"id":"0_0","stateful":false,"source":[["in0",0]],"changelog":[]},
        {"id":"1_0","stateful":true,"source":[["in1",0]],"changelog":[["log1",0]],"end_offset":1000000}],
        "clients":[
        {"id":"A","stable_id":"a","rack":"r1","threads":1,"tags":{},"prev_active":["1_0"],"prev_standby":[],"lags":{"1_0":-2}},
        {"id":"B","stable_id":"b","rack":null,"threads":1,"tags":{},"prev_active":[],"prev_standby":[],"lags":{}}],
        "initial":{"active":{"0_0":"B","1_0":"A"},"standby":{"1_0":["B"]}}}}
        """
            .replace("\n", "")
            .replace("\"A\"", "\"" + a + "\"")
            .replace("\"B\"", "\"" + b + "\"");
    assertEquals(golden, new String(bytes, StandardCharsets.UTF_8));
    assertEquals("app", ((Map<?, ?>) Json.parse(bytes)).get("group"));
  }
}
