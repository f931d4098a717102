/**
 * Owns the node's side of the link: where its leaf connects and with what, the renewal of its
 * credentials, and whether the link is up.
 *
 * 1. Credentials lie in one of two private files. The leaf re-reads its file at every attempt, but a
 *    running link takes new ones only under another file name and a reload: so they alternate.
 * 2. A renewal loses no call: the controller is asked to send nothing for a moment (what it sent before
 *    has then arrived), answers are kept back, and both go on when the link is up again.
 * 3. "Up" is proven by the leaf's own list of its links, never by what it logs. Nothing is polled: the
 *    list is read when the leaf says that something connected or went.
 */
import { unlink } from "node:fs/promises";
import { join } from "node:path";
import { fmtCreds } from "@nats-io/jwt";
import type { KeyPair } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "../../host/clock.ts";
import { ensurePrivateDirectory, writeSecureFile } from "../../host/secure-file.ts";
import { systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Quiesce } from "../rpc/relink.ts";
import { leafCount, readAdvisory } from "./system-api.ts";

const FILES = ["a.creds", "b.creds"] as const;
const LEAFZ_TIMEOUT_MS = 2_000;
/** A server that does not answer is hung, or busy at its start: it is asked again, but not at once. */
const LEAFZ_AGAIN_MS = 1_000;
/** A reload takes some ms; a hub that is away at this very moment, half a second. */
const RENEWAL_MS = 3_000;

/**
 * The URL for a leaf remote, from the controller's own (`ws(s)://host[:port][/prefix]/ws`) and the path
 * the controller named below it. NATS appends `/leafnode`; the port is always written, because NATS
 * has another default than the web. Errors: `invalid_request`.
 */
export function leafRemoteUrl(controllerUrl: string, leafPath = ""): string {
  const url = URL.parse(controllerUrl);
  if (url === null || (url.protocol !== "ws:" && url.protocol !== "wss:") || url.hostname === "") {
    throw new LemonError("invalid_request", {
      message: "A controller's URL begins ws:// or wss://",
    });
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new LemonError("invalid_request", {
      message: "A controller's URL holds no credentials, query or fragment",
    });
  }
  const port = url.port === "" ? (url.protocol === "wss:" ? "443" : "80") : url.port;
  const prefix = `${url.pathname.replace(/\/ws\/?$/, "")}/${leafPath}`
    .split("/")
    .filter((part) => part !== "")
    .map((part) => `/${part}`)
    .join("");
  return `${url.protocol}//${url.hostname}:${port}${prefix}`;
}

export interface LeafLinkOptions {
  /** Private folder for the two credentials files. */
  readonly folder: string;
  /** The life's link key (`WorkerLife.link`). */
  readonly key: KeyPair;
  readonly clock: Clock;
}

export interface LeafLink {
  /** The file that the leaf's configuration has to name now. */
  readonly credentialsFile: string;
  readonly up: boolean;
  /** Writes the first credentials, before the leaf starts. */
  install(jwt: string): Promise<void>;
  /** Follows the leaf through a connection to its SYS account; again after each start of the leaf. */
  follow(system: NatsConnection, onChange: (up: boolean) => void): Promise<void>;
  /** Resolves when the link is up; rejects with `node_offline` after `deadlineMs`. */
  whenUp(deadlineMs: number): Promise<void>;
  /**
   * Puts new credentials in force. `reload` has the leaf read its configuration again, which names
   * `credentialsFile`. Rejects with `node_offline` when the link is not back within 3 s; it may come
   * back later, with the new credentials.
   */
  renew(jwt: string, reload: () => Promise<void>, quiesce: Quiesce): Promise<void>;
  /** Removes both credentials files and follows no more. */
  dispose(): Promise<void>;
}

export function createLeafLink(options: LeafLinkOptions): LeafLink {
  return new Leaf(options);
}

class Leaf implements LeafLink {
  readonly #options: LeafLinkOptions;
  /** Called with each change of `up`, and with each new link. */
  readonly #waiting = new Set<(news: "up" | "new link") => void>();
  #file: (typeof FILES)[number] = FILES[0];
  #up = false;
  #following: NatsConnection | null = null;
  #checking: Promise<void> = Promise.resolve();
  /** One renewal at a time. */
  #renewing: Promise<void> = Promise.resolve();

  constructor(options: LeafLinkOptions) {
    this.#options = options;
  }

  get credentialsFile(): string {
    return join(this.#options.folder, this.#file);
  }

  get up(): boolean {
    return this.#up;
  }

  async install(jwt: string): Promise<void> {
    await ensurePrivateDirectory(this.#options.folder);
    await this.#write(this.#file, jwt);
  }

  async follow(system: NatsConnection, onChange: (up: boolean) => void): Promise<void> {
    this.#following = system;
    const set = (up: boolean): void => {
      if (this.#following !== system || up === this.#up) return;
      this.#up = up;
      if (up) this.#tell("up");
      onChange(up);
    };
    const check = (): void => {
      this.#checking = this.#checking.then(async () => {
        if (this.#following !== system) return;
        const up = await hasLink(system);
        if (up !== null) set(up);
        else if (!system.isClosed()) this.#options.clock.after(LEAFZ_AGAIN_MS, check);
      });
    };
    for (const kind of ["CONNECT", "DISCONNECT"]) {
      system.subscribe(`$SYS.ACCOUNT.LINK.${kind}`, {
        callback: (error, message) => {
          const advisory = error === null ? readAdvisory(message.data) : null;
          if (advisory?.kind !== "Leafnode" || this.#following !== system) return;
          if (kind === "CONNECT") this.#tell("new link");
          check();
        },
      });
    }
    void (async () => {
      for await (const status of system.status()) {
        if (status.type === "disconnect") set(false);
        else if (status.type === "reconnect") check();
      }
      set(false);
    })();
    check();
    await this.#checking;
  }

  async whenUp(deadlineMs: number): Promise<void> {
    if (!this.#up) await this.#news("up", deadlineMs);
  }

  renew(jwt: string, reload: () => Promise<void>, quiesce: Quiesce): Promise<void> {
    const renewal = this.#renewing.then(() => this.#renew(jwt, reload, quiesce));
    this.#renewing = renewal.catch(() => undefined);
    return renewal;
  }

  async #renew(jwt: string, reload: () => Promise<void>, quiesce: Quiesce): Promise<void> {
    const next = this.#file === FILES[0] ? FILES[1] : FILES[0];
    await this.#write(next, jwt);
    this.#file = next;
    // Answers first: what went out before the controller is asked has arrived when it answers.
    quiesce.holdAnswers();
    try {
      // Without a link there is nothing to lose on it, and nobody to ask.
      await quiesce.pauseController().catch(() => undefined);
      const back = this.#news("new link", RENEWAL_MS);
      await Promise.all([back, reload()]);
      await quiesce.resumeController();
    } finally {
      quiesce.releaseAnswers();
    }
  }

  async dispose(): Promise<void> {
    this.#following = null;
    this.#up = false;
    for (const file of FILES) {
      await unlink(join(this.#options.folder, file)).catch((failure: unknown) => {
        const error = systemFailure(failure);
        if (error.code !== "not_found") throw error;
      });
    }
  }

  async #write(file: string, jwt: string): Promise<void> {
    const credentials = fmtCreds(jwt, this.#options.key);
    await writeSecureFile(join(this.#options.folder, file), credentials);
    credentials.fill(0);
  }

  #tell(news: "up" | "new link"): void {
    for (const hear of [...this.#waiting]) hear(news);
  }

  #news(wanted: "up" | "new link", deadlineMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const hear = (news: "up" | "new link"): void => {
        if (news !== wanted) return;
        cancel();
        this.#waiting.delete(hear);
        resolve();
      };
      const cancel = this.#options.clock.after(deadlineMs, () => {
        this.#waiting.delete(hear);
        reject(new LemonError("node_offline"));
      });
      this.#waiting.add(hear);
    });
  }
}

/** Whether the leaf says of itself that a link stands; null when it says nothing. */
async function hasLink(system: NatsConnection): Promise<boolean | null> {
  try {
    const answer = await system.request("$SYS.REQ.SERVER.PING.LEAFZ", "", {
      timeout: LEAFZ_TIMEOUT_MS,
    });
    return leafCount(answer.data) > 0;
  } catch {
    return null;
  }
}
