import { expect } from "chai";
import { DEVICE_DOCUMENTS } from "../../../actors/device/devices.ts";
import { type DeviceRecord, SESSION_TTL_MS } from "../../../actors/device/record.ts";
import { DeviceSessions, MAX_DEVICES } from "../../../actors/device/sessions.ts";
import { sha256 } from "../../../actors/node/secrets.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { MemoryDocuments } from "../../support/memory-documents.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("the sessions of devices", () => {
  it("are deleted once they have expired, also those of an earlier controller", async () => {
    const clock = new FakeClock();
    const documents = new MemoryDocuments<DeviceRecord>(DEVICE_DOCUMENTS.parse);
    const earlier = new DeviceSessions(documents, clock);
    const tokenHash = sha256("token");
    await earlier.begin({ deviceId: "d", name: "n", type: "t", tokenHash });
    clock.jumpWallClock(SESSION_TTL_MS - 1);
    const sessions = new DeviceSessions(documents, clock);
    await sessions.load();
    expect(sessions.identify(tokenHash)).to.include({ role: "device", clientId: "d" });
    clock.jumpWallClock(1);
    expect(sessions.identify(tokenHash)).to.equal("expired");
    // A store that does not take it keeps nobody from starting.
    documents.writeFaults.push({ kind: "refused" });
    await sessions.load();
    expect(sessions.identify(tokenHash)).to.equal("expired");
    await sessions.load();
    expect(sessions.identify(tokenHash)).to.equal(null);
    expect(documents.text()).to.equal("");
  });

  it("are so many at a time, and one more when one of them has expired", async () => {
    const clock = new FakeClock();
    const documents = new MemoryDocuments<DeviceRecord>(DEVICE_DOCUMENTS.parse);
    const sessions = new DeviceSessions(documents, clock);
    await sessions.load();
    const begin = (n: number | string) =>
      sessions.begin({ deviceId: `d${n}`, name: "n", type: "t", tokenHash: sha256(`token-${n}`) });
    await begin(0);
    await clock.advance(1_000);
    for (let n = 1; n < MAX_DEVICES; n += 1) await begin(n);
    const refusal = await refusalOf(() => begin("more"));
    expect(refusal.wire).to.equal("RATE_LIMITED");
    expect(refusal.details).to.deep.equal({ retryAfterMs: SESSION_TTL_MS - 1_000 });
    // One that has a session may have a newer one.
    await begin(1);
    await clock.advance(SESSION_TTL_MS - 1_000);
    await begin("more");
    expect(sessions.identify(sha256("token-0"))).to.equal(null);
    expect(sessions.identify(sha256("token-more"))).to.include({ role: "device" });
  });
});
