import { once } from "node:events";
import { chmodSync, copyFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { createOperator } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import type { RoleContext } from "../../../cli/roles/context.ts";
import { openExternalHub } from "../../../cli/roles/external-hub.ts";
import { controllerFolders } from "../../../cli/roles/home.ts";
import type { Hub } from "../../../cli/roles/hub.ts";
import { openRoleLog } from "../../../cli/roles/log.ts";
import { type Clock, systemClock } from "../../../host/clock.ts";
import { systemApi } from "../../../transport/link/system-api.ts";
import { quote } from "../../../transport/nats-server/config.ts";
import {
  type ExternalNats,
  memoryResolver,
  type NatsFlag,
  type NatsOperator,
  natsOperator,
  seedOf,
  startExternalNats,
} from "../../support/external-nats.ts";
import { type LogLines, logLines } from "../../support/log-lines.ts";
import { startServer } from "../../support/nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const AGAIN = "start the controller again with";

type Told = Readonly<Record<NatsFlag, string | null>>;

describe("a hub that is somebody else's", () => {
  let folder: TempFolder;
  let notes: string[];
  let log: LogLines;
  const hubs: Hub[] = [];

  beforeEach(() => {
    folder = tempFolder();
    notes = [];
    log = logLines();
  });
  afterEach(async () => {
    for (const hub of hubs.splice(0)) await hub[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  async function open(
    told: Told,
    caFile: string | null = null,
    clock: Clock = systemClock,
  ): Promise<Hub> {
    const context: RoleContext = {
      say: (line) => notes.push(line),
      log: log.log,
      clock,
      logbook: openRoleLog({ LEMON_LOG_LEVEL: "silent" }, {}),
      environment: {},
      asked: new AbortController().signal,
    };
    const nats = {
      url: told["--nats"] ?? "",
      credsFile: told["--nats-creds"],
      sysCredsFile: told["--nats-sys-creds"],
      operatorKeyFile: told["--nats-operator-key"],
      leafUrl: told["--nats-leaf-url"],
    };
    const events = {
      onLinkEvent: () => undefined,
      onServing: async () => undefined,
      onStray: () => undefined,
    };
    const folders = controllerFolders(join(folder.path, "home"));
    const hub = await openExternalHub({ nats, caFile, folders, events }, context);
    hubs.push(hub);
    return hub;
  }

  describe("prepared for it", () => {
    let nats: ExternalNats;
    let other: NatsOperator;
    before(async () => {
      nats = await startExternalNats();
      other = await natsOperator();
    });
    after(async () => {
      other[Symbol.dispose]();
      await nats[Symbol.asyncDispose]();
    });

    const told = (changes: Partial<Told> = {}): Told => ({
      "--nats": nats.url,
      "--nats-creds": nats.operator.creds,
      "--nats-sys-creds": nats.operator.sysCreds,
      "--nats-operator-key": nats.operator.operatorKey,
      "--nats-leaf-url": nats.leafUrl,
      ...changes,
    });

    it("refuses nothing when it was told everything, and has nothing to say", async () => {
      const hub = await open(told());
      expect([hub.joinsRefused, hub.localNodeRefused, notes]).to.deep.equal([null, null, []]);
      expect([hub.own, hub.leafUrl, hub.replicas]).to.deep.equal([null, nats.leafUrl, 1]);
      expect(hub.link.keepsStores).to.equal(false);
    });

    it("warns of each key that others may read by its mode, and takes it", async () => {
      const open_ = (flag: "--nats-creds" | "--nats-operator-key", source: string): string => {
        const path = join(folder.path, flag);
        copyFileSync(source, path);
        chmodSync(path, 0o644);
        return path;
      };
      const hub = await open(
        told({
          "--nats-creds": open_("--nats-creds", nats.operator.creds),
          "--nats-operator-key": open_("--nats-operator-key", nats.operator.operatorKey),
        }),
      );
      expect(hub.joinsRefused).to.equal(null);
      expect(notes).to.deep.equal([
        "warning: the file of --nats-creds has mode 644: whoever reads it can act as this controller; chmod 600 it",
        "warning: the file of --nats-operator-key has mode 644: whoever reads it can make itself an account of the NATS system, or be any node; chmod 600 it",
      ]);
    });

    for (const [flag, localNode] of [
      ["--nats-sys-creds", false],
      ["--nats-operator-key", false],
      ["--nats-leaf-url", true],
    ] as const) {
      it(`refuses joins without ${flag}${localNode ? "" : ", and the local node"}`, async () => {
        const hub = await open(told({ [flag]: null }));
        expect(hub.joinsRefused).to.equal(
          `No node can join this controller: ${flag} is not given; ${AGAIN} it`,
        );
        expect(hub.localNodeRefused).to.equal(
          localNode ? null : `There is no local node: ${flag} is not given; ${AGAIN} it`,
        );
        if (localNode) {
          await hub.link.provision("local-node");
        } else {
          const refused = await refusalOf(() => hub.link.provision());
          expect(refused.message).to.equal(
            `No account can be changed on this NATS system: ${flag} is not given; ${AGAIN} it`,
          );
        }
        await hub.controller.flush();
      });
    }

    it("names everything that it was not told at once", async () => {
      const hub = await open(
        told({ "--nats-sys-creds": null, "--nats-operator-key": null, "--nats-leaf-url": null }),
      );
      expect(hub.joinsRefused).to.equal(
        `No node can join this controller: --nats-sys-creds is not given; --nats-operator-key is not given; --nats-leaf-url is not given; ${AGAIN} these`,
      );
      expect(hub.localNodeRefused).to.equal(
        `There is no local node: --nats-sys-creds is not given; --nats-operator-key is not given; ${AGAIN} these`,
      );
    });

    const foreignKey = (): string => {
      const path = join(folder.path, "other.nk");
      writeFileSync(path, seedOf(createOperator()), { mode: 0o600 });
      return path;
    };
    for (const [what, changes, code, message] of [
      [
        "an address that is none",
        () => ({ "--nats": "nats.example" }),
        "invalid_request",
        /^--nats wants nats:\/\/host:port/,
      ],
      [
        "addresses where nobody answers",
        () => ({ "--nats": "nats://127.0.0.1:1,nats://127.0.0.1:2" }),
        "unavailable",
        /^No NATS server answers where --nats says$/,
      ],
      [
        "TLS that is not offered",
        () => ({ "--nats": nats.url.replace("nats:", "tls:") }),
        "unavailable",
        /^TLS with the NATS system fails; --ca-file/,
      ],
      [
        "an address for leafs that is none",
        () => ({ "--nats-leaf-url": "https://nats.example" }),
        "invalid_request",
        /^--nats-leaf-url wants tls:/,
      ],
      [
        "credentials that are refused",
        () => ({ "--nats-creds": other.creds }),
        "unavailable",
        /^The NATS system refuses the credentials of --nats-creds$/,
      ],
      [
        "no credentials where they are wanted",
        () => ({ "--nats-creds": null }),
        "unavailable",
        /^The NATS system wants credentials; give them with --nats-creds$/,
      ],
      [
        "a file that holds none",
        () => ({ "--nats-creds": nats.operator.operatorKey }),
        "invalid_request",
        /^--nats-creds holds no credentials of a NATS user/,
      ],
      [
        "credentials of the system account that are refused",
        () => ({ "--nats-sys-creds": other.sysCreds }),
        "unavailable",
        /^The NATS system refuses the credentials of --nats-sys-creds$/,
      ],
      [
        "credentials of another account than the system's",
        () => ({ "--nats-sys-creds": nats.operator.creds }),
        "invalid_request",
        /^--nats-sys-creds holds credentials of another account than the system account$/,
      ],
      [
        "another operator's key",
        () => ({ "--nats-operator-key": foreignKey() }),
        "invalid_request",
        /^--nats-operator-key is no key of the operator of this NATS system$/,
      ],
      [
        "a file that holds no key",
        () => ({ "--nats-operator-key": nats.operator.creds }),
        "invalid_request",
        /^--nats-operator-key holds no operator's seed/,
      ],
    ] as const) {
      it(`is not opened with ${what}, and nothing stays connected`, async () => {
        const refused = await refusalOf(() => open(told(changes())));
        expect([refused.code, notes]).to.deep.equal([code, []]);
        expect(refused.message).to.match(message);
        const system = await nats.operator.connect(nats.server, "system");
        const connected = (await systemApi(system).connections()).map(({ name }) => name);
        expect(connected.filter((name) => name.startsWith("controller"))).to.deep.equal([]);
        await system.close();
      });
    }
  });

  describe("and what a person should know of it", () => {
    let nats: ExternalNats;
    before(async () => {
      nats = await startExternalNats();
    });
    after(() => nats[Symbol.asyncDispose]());
    const told = (url = nats.url): Told => ({
      "--nats": url,
      "--nats-creds": nats.operator.creds,
      "--nats-sys-creds": nats.operator.sysCreds,
      "--nats-operator-key": nats.operator.operatorKey,
      "--nats-leaf-url": nats.leafUrl,
    });

    it("is told when what passes can be read on the way", async () => {
      // This machine, by a name that does not say so.
      await open(told(nats.url.replace("127.0.0.1", "[::ffff:127.0.0.1]")));
      expect(notes).to.deep.equal([
        "What passes between the controller and NATS can be read on the way: use tls://",
      ]);
    });

    it("is told when the clocks are apart, by which nodes' credentials end; a local one's do not", async () => {
      const behind: Clock = { ...systemClock, nowMs: () => Date.now() - 7_200_000 };
      const { joinsRefused, localNodeRefused } = await open(told(), null, behind);
      expect(joinsRefused).to.match(
        /^No node can join this controller: the clock of the NATS server \S+ is 120 minutes ahead of the controller's$/,
      );
      expect(localNodeRefused).to.equal(null);
    });

    it("is told when another controller is in the same account", async () => {
      await open(told());
      expect(notes).to.deep.equal([]);
      await open(told());
      expect(notes).to.deep.equal([
        "Another controller is connected to the same NATS account: they take each other's nodes",
      ]);
    });

    it("is told in the log when the connection is back", async () => {
      const hub = await open(told());
      const back = reconnected(hub.controller);
      await nats.server.kill();
      await nats.server.restart();
      await back;
      expect(log.lines.map(({ msg, server }) => [msg, server])).to.deep.include([
        "the controller is connected to NATS again",
        "theirs",
      ]);
    });
  });

  describe("that is older than the floor", () => {
    for (const version of ["2.12.6", "2.11.16", "2.12.7-RC.1"]) {
      it(`is not opened (${version})`, async () => {
        await using old = await fakeServer(version);
        const refused = await refusalOf(() => open({ ...NOTHING, "--nats": old.url }));
        expect([refused.code, refused.message]).to.deep.equal([
          "nats_server_too_old",
          `The NATS server old runs ${version}; lemon needs at least 2.12.7 on every server`,
        ]);
      });
    }
  });

  it("that asks nobody who they are is opened without credentials, and refuses all that needs an account", async () => {
    await using server = await startServer(
      ({ ports, portsDirectory }) => `
        server_name: open
        listen: "127.0.0.1:${ports.client}"
        ports_file_dir: ${quote(portsDirectory)}`,
    );
    const hub = await open({ ...NOTHING, "--nats": server.child.clientUrl });
    expect(hub.localNodeRefused).to.equal(
      `There is no local node: --nats-creds is not given; --nats-sys-creds is not given; --nats-operator-key is not given; the NATS server open has max_payload 1048576, and nodes need 8388608; ${AGAIN} these`,
    );
    expect(hub.joinsRefused).to.match(
      /; --nats-leaf-url is not given; start the controller again with these$/,
    );
  });

  describe("that is not prepared for it", () => {
    const openOn = (nats: ExternalNats): Promise<Hub> =>
      open({
        "--nats": nats.url,
        "--nats-creds": nats.operator.creds,
        "--nats-sys-creds": nats.operator.sysCreds,
        "--nats-operator-key": nats.operator.operatorKey,
        "--nats-leaf-url": nats.leafUrl,
      });

    it("is opened without the exports that nodes import, and names each", async () => {
      await using nats = await startExternalNats({ claims: { limits: { conn: -1, subs: -1 } } });
      const { joinsRefused, localNodeRefused } = await openOn(nats);
      const lacks = ["stream node.*.>", "service ctl.*.>"]
        .map(
          (what) =>
            `the controller's account does not export the ${what} with account_token_position 2`,
        )
        .join("; ");
      expect(joinsRefused).to.equal(`No node can join this controller: ${lacks}`);
      expect(localNodeRefused).to.equal(`There is no local node: ${lacks}`);
    });

    it("is opened when its accounts stand in its configuration, and says so once", async () => {
      await using nats = await startExternalNats({ configure: memoryResolver });
      expect((await openOn(nats)).joinsRefused).to.equal(
        "No node can join this controller: the NATS servers keep no accounts that can be changed (resolver type: full)",
      );
    });

    it("is opened when it takes small messages only, or keeps accounts for ever, and says so", async () => {
      await using nats = await startExternalNats({
        configure: (config) =>
          config
            .replace(/^max_payload: .*$/m, "max_payload: 8388607")
            .replace("allow_delete: true", "allow_delete: false"),
      });
      expect((await openOn(nats)).joinsRefused).to.equal(
        "No node can join this controller: the NATS servers do not let accounts be deleted (resolver allow_delete: true); the NATS server theirs has max_payload 8388607, and nodes need 8388608",
      );
    });
  });
});

async function reconnected(connection: NatsConnection): Promise<void> {
  for await (const { type } of connection.status()) if (type === "reconnect") return;
}

const NOTHING: Told = {
  "--nats": null,
  "--nats-creds": null,
  "--nats-sys-creds": null,
  "--nats-operator-key": null,
  "--nats-leaf-url": null,
};

/** A server that says what version it is, and takes anybody. */
async function fakeServer(version: string) {
  const server = createServer((socket) => {
    const info = { server_id: "N", server_name: "old", version, proto: 1, max_payload: 8_388_608 };
    socket.write(`INFO ${JSON.stringify({ ...info, headers: true })}\r\n`);
    socket.on("data", (bytes) => {
      if (bytes.includes("PING")) socket.write("PONG\r\n");
    });
    socket.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `nats://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
    },
  };
}
