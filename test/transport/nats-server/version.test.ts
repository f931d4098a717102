import { expect } from "chai";
import { FLOOR, isAtLeastFloor } from "../../../scripts/nats-server.mjs";
import { isNewEnough, OLDEST_NATS_SERVER } from "../../../transport/nats-server/version.ts";

describe("a nats-server's version", () => {
  const accepted = ["2.12.7", "2.12.8-RC.1", "2.12.10", "2.13.0", "2.15.1", "3.0.0", "10.0.0-dev"];
  const refused = ["2.12.6", "2.12.7-RC.3", "2.11.99", "2.9.10", "1.99.99", "0.0.0"];
  const unreadable = ["", "v2.15", "2.15.1.4", "2.15.1 (go1.25)", "2.15.x", "x2.15.1y"];

  for (const version of accepted) {
    it(`${version} is new enough, for the set-up too`, () => {
      expect(isNewEnough(version)).to.equal(true);
      expect(isNewEnough(`nats-server: v${version}\n`)).to.equal(true);
      expect(isAtLeastFloor(version)).to.equal(true);
    });
  }

  for (const version of refused) {
    it(`${version} is too old, for the set-up too`, () => {
      expect(isNewEnough(version)).to.equal(false);
      expect(isAtLeastFloor(version)).to.equal(false);
    });
  }

  for (const text of unreadable) {
    it(`is not read from ${JSON.stringify(text)}, and so does not do`, () => {
      expect(isNewEnough(text)).to.equal(false);
    });
  }

  it("has one floor, for the set-up and for servers that run", () => {
    expect(OLDEST_NATS_SERVER).to.equal(FLOOR);
  });
});
