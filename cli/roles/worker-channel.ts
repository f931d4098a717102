/**
 * Owns a worker's `/ws` session with its controller: it opens the life's link, renews it, and hears
 * when the life is over.
 *
 * 1. One life keeps one link key; opening again with it is a renewal, whatever was lost in between.
 * 2. A renewed session token is stored before it is used, and used from the next connection on.
 * 3. An end that only an operator can change is told once: `superseded`, `revoked`, `refused`.
 * 4. A controller whose certificate is not trusted ends a start, since waiting mends nothing; one that
 *    had been trusted is tried on.
 * 5. A life that another takes the place of learns it from the first word of it, not after a pause.
 * 6. Credentials end by a clock that is not ours, and may be void before: a link that stays down is given
 *    new ones, or the life learns that it is over, without waiting for the half of their time.
 */
import type { Logger } from "pino";
import {
  type Client,
  ConnectError,
  connect,
  type OpenSocket,
  type SocketClose,
} from "../../client/index.ts";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { NODE_CLOSE } from "../../protocol/methods/enrolment.ts";
import type { InputOf, ResultOf } from "../../protocol/methods.ts";
import { isCertificateFailure } from "../certificate.ts";
import type { Session } from "./enrol.ts";
import { type Enrolment, storeEnrolment } from "./enrolment-file.ts";

export type LinkOpening = ResultOf<"node.link.open">;
/** `moved`: the node has another NATS account now, which a life that began in the old one can not enter. */
export type WorkerEnd = "superseded" | "revoked" | "refused" | "moved";

/** A renewal that fails is tried again this much later, as long as the credentials hold, in ms. */
const RENEWAL_RETRY_MS = 30_000;

/** A hub that restarts has its links back in less, in ms. */
const LINK_DOWN_MS = 5_000;

export interface WorkerChannelOptions {
  readonly session: Session;
  /** `LEMON_HOME`, where the session token is kept. */
  readonly home: string;
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  readonly log: Logger;
  /** What the life says of itself with every opening. */
  readonly opening: () => InputOf<"node.link.open">;
  /** Fresh credentials after the first ones. */
  readonly onRenewed: (opening: LinkOpening) => void;
  readonly onEnd: (end: WorkerEnd) => void;
  /** Gives up connecting for the first time. */
  readonly signal: AbortSignal;
}

export interface WorkerChannel {
  /** The first opening. */
  readonly first: LinkOpening;
  /** To be told whether the link stands, whenever that changes. */
  linkChanged(up: boolean): void;
  close(): void;
}

/** Resolves when the link is open. Errors: `node_superseded`, `node_revoked`, `unauthorized`, `aborted`. */
export async function openWorkerChannel(options: WorkerChannelOptions): Promise<WorkerChannel> {
  const channel = new Channel(options);
  await channel.start();
  return channel;
}

/** Refusals that say why this life is over. */
const ENDS: Readonly<Partial<Record<ErrorCode, WorkerEnd>>> = {
  node_superseded: "superseded",
  node_revoked: "revoked",
  node_not_found: "revoked",
};

class Channel implements WorkerChannel {
  readonly #options: WorkerChannelOptions;
  /** Aborted when the channel is closed. */
  readonly #closed = new AbortController();
  #enrolment: Enrolment;
  #token: string;
  #client: Client | null = null;
  #first: LinkOpening | null = null;
  /** Why the controller of a start is not trusted. */
  #distrust: SocketClose | null = null;
  #cancelRenewal: CancelTimer = () => {};
  #cancelDoubt: CancelTimer = () => {};
  #ended = false;

  constructor(options: WorkerChannelOptions) {
    this.#options = options;
    this.#enrolment = options.session.enrolment;
    this.#token = options.session.token;
  }

  get first(): LinkOpening {
    if (this.#first === null) throw new LemonError("handshake_required");
    return this.#first;
  }

  async start(): Promise<void> {
    try {
      const client = await this.#connect();
      this.#first = await this.#open(client);
      this.#renewLater(this.#first);
      this.#follow(client);
    } catch (failure) {
      this.close();
      if (this.#distrust === null) throw failure;
      throw new ConnectError("unavailable", "unreachable", {
        message: `The controller can not be reached (${this.#distrust.failure})`,
        close: this.#distrust,
      });
    }
  }

  async #connect(): Promise<Client> {
    const { openSocket, signal } = this.#options;
    const client = await connect({
      url: this.#enrolment.controller,
      token: () => this.#token,
      clientId: `lemon-execution-node:${this.#enrolment.localName}`,
      openSocket: this.#first === null ? this.#trusting(openSocket) : openSocket,
      reconnect: true,
      signal: AbortSignal.any([signal, this.#closed.signal]),
    });
    this.#client = client;
    client.onClose(({ code }) => {
      if (code === NODE_CLOSE.superseded.code) this.#end("superseded");
      else if (code === NODE_CLOSE.revoked.code) this.#end("revoked");
      else if (code === NODE_CLOSE.replaced.code && this.#first !== null)
        this.#connectAgain(client);
    });
    if (client.hello.role !== "node" || client.hello.clientId !== this.#enrolment.nodeId) {
      throw new LemonError("unauthorized", {
        message: "The stored session is not that of this node; join again with --pair",
      });
    }
    return client;
  }

  /** Gives up connecting when the certificate is not trusted. */
  #trusting(openSocket: OpenSocket): OpenSocket {
    return (url, events) =>
      openSocket(url, {
        ...events,
        closed: (close) => {
          if (this.#first === null && isCertificateFailure(close.failure ?? "")) {
            this.#distrust = close;
            this.#closed.abort();
          }
          events.closed(close);
        },
      });
  }

  #follow(client: Client): void {
    client.onReconnect(() => void this.#renew());
    void client.ended.then((error) => this.#refused(error));
  }

  /**
   * Somebody came with a newer token of this node. Whether that is a newer worker is asked at once, not
   * after the pause of a lost connection: what this one runs must end before that one runs anything.
   * The link is left alone, since to renew it holds up calls, which may be that one's by then.
   */
  #connectAgain(replaced: Client): void {
    replaced.close();
    this.#connect().then(
      (client) => {
        this.#follow(client);
        void this.#proveLife(client);
      },
      (failure: unknown) => this.#refused(failure),
    );
  }

  #refused(failure: unknown): void {
    if (!(failure instanceof LemonError) || failure.code === "aborted") return;
    if (failure instanceof ConnectError && failure.reason !== "refused") return;
    this.#end(ENDS[failure.code] ?? "refused");
  }

  linkChanged(up: boolean): void {
    this.#cancelDoubt();
    if (up || this.#ended) return;
    this.#cancelDoubt = this.#options.clock.after(LINK_DOWN_MS, () => void this.#renew());
  }

  close(): void {
    this.#ended = true;
    this.#closed.abort();
    this.#cancelRenewal();
    this.#cancelDoubt();
    this.#client?.close();
  }

  async #open(client: Client): Promise<LinkOpening> {
    const { clock, home, opening } = this.#options;
    const opened = await client.call("node.link.open", opening());
    this.#enrolment = {
      ...this.#enrolment,
      nodeName: opened.nodeName,
      token: opened.sessionToken,
      storedAtMs: clock.nowMs(),
    };
    await storeEnrolment(home, this.#enrolment);
    this.#token = opened.sessionToken;
    return opened;
  }

  #renewLater({ linkLifetimeMs }: LinkOpening): void {
    this.#cancelRenewal();
    const { clock } = this.#options;
    this.#cancelRenewal = clock.after(linkLifetimeMs / 2, () => void this.#renew());
  }

  async #renew(): Promise<void> {
    const client = this.#client;
    if (this.#ended || client === null) return;
    this.#cancelDoubt();
    const opened = await this.#proveLife(client);
    if (opened === null) return;
    this.#renewLater(opened);
    this.#options.onRenewed(opened);
  }

  /** Opens the link again; null when the life is over, or when that can not be known yet. */
  async #proveLife(client: Client): Promise<LinkOpening | null> {
    try {
      const opened = await this.#open(client);
      if (this.#ended) return null;
      if (opened.nodeKey === this.first.nodeKey) return opened;
      this.#end("moved");
    } catch (failure) {
      if (this.#ended) return null;
      const code = failure instanceof LemonError ? failure.code : "internal_error";
      const end = ENDS[code];
      if (end !== undefined) this.#end(end);
      else {
        this.#options.log.warn({ code }, "the link's credentials are not renewed yet");
        this.#cancelRenewal();
        this.#cancelRenewal = this.#options.clock.after(RENEWAL_RETRY_MS, () => void this.#renew());
      }
    }
    return null;
  }

  #end(end: WorkerEnd): void {
    if (this.#ended) return;
    this.close();
    this.#options.onEnd(end);
  }
}
