import { expect } from "chai";
import { DEVICE_DOCUMENTS } from "../../../actors/device/devices.ts";
import { type DeviceRecord, SESSION_TTL_MS } from "../../../actors/device/record.ts";
import { DeviceSessions, MAX_DEVICES } from "../../../actors/device/sessions.ts";
import { sha256 } from "../../../actors/node/secrets.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { MemoryDocuments } from "../../support/memory-documents.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("the sessions of devices", () => {
  const clock = new FakeClock();
  let documents: MemoryDocuments<DeviceRecord>;
  /** The devices that are connected now. */
  let open: Map<string, number>;

  beforeEach(() => {
    documents = new MemoryDocuments<DeviceRecord>(DEVICE_DOCUMENTS.parse);
    open = new Map();
  });

  const load = async (): Promise<DeviceSessions> => {
    const sessions = new DeviceSessions({
      documents,
      clock,
      endSessions: () => {},
      connections: () => open,
    });
    await sessions.load(() => {});
    return sessions;
  };

  it("are deleted once they have expired, also those of an earlier controller", async () => {
    const earlier = await load();
    const tokenHash = sha256("token");
    await earlier.begin({ deviceId: "d", name: "n", type: "t", tokenHash });
    clock.jumpWallClock(SESSION_TTL_MS - 1);
    const sessions = await load();
    expect(sessions.identify(tokenHash)).to.include({ role: "device", clientId: "d" });
    clock.jumpWallClock(1);
    expect(sessions.identify(tokenHash)).to.equal("expired");
    // A store that does not take it keeps nobody from starting.
    documents.writeFaults.push({ kind: "refused" });
    await sessions.load(() => {});
    expect(sessions.identify(tokenHash)).to.equal("expired");
    await sessions.load(() => {});
    expect(sessions.identify(tokenHash)).to.equal(null);
    expect(documents.text()).to.equal("");
  });

  it("are so many at a time, and one more when one of them has expired", async () => {
    const sessions = await load();
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
    // One that has expired keeps its place while it is connected: it is there to be revoked.
    open.set("d0", 1);
    const still = await refusalOf(() => begin("more"));
    expect(still.details).to.deep.equal({ retryAfterMs: 1_000 });
    expect((await sessions.list()).map(({ record }) => record.deviceId)).to.include("d0");
    open.clear();
    await begin("more");
    expect(sessions.identify(sha256("token-0"))).to.equal(null);
    expect(sessions.identify(sha256("token-more"))).to.include({ role: "device" });
  });
});
