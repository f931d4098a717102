import { expect } from "chai";
import { EVENT_SPECS, EVENTS } from "../../../protocol/events.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { readParams } from "../../../protocol/params.ts";
import { eventExample } from "../../../scripts/reference/examples/frames.ts";
import { exampleOf } from "../../../scripts/reference/examples.ts";

describe("an example in the reference", () => {
  for (const spec of METHODS.values()) {
    it(`of ${spec.name} is a call and an answer that the declaration takes, to the last field`, () => {
      const { params, result } = exampleOf(spec.name);
      // Beyond it there may be defaults.
      expect(readParams(spec, params)).to.deep.include(params);
      expect(spec.result.parse(result)).to.deep.equal(result);
      for (const field of spec.echoes) expect(Object(result)[field], field).to.equal(params[field]);
    });
  }

  for (const event of EVENTS) {
    it(`of the event ${event} has the declared payload, to the last field`, () => {
      const { payload } = eventExample(event);
      expect(EVENT_SPECS[event].payload.parse(payload)).to.deep.equal(payload);
    });
  }
});
