/** Accounts of a fake host: passwords as scrypt hashes, homes and numbers derived from the names. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { APP_SERVICE_BAND } from "../../protocol/host-agent/routes/accounts.ts";
import type { Accounts, AppIdentity, Role, UserHome } from "../machine/accounts.ts";
import type { FakeMemory, FakeState } from "./state.ts";

const derive = promisify<Uint8Array, Uint8Array, number, Buffer>(scrypt);
const HASH_BYTES = 32;
/** useradd(8): what shadow-utils accept, but for the one name that no object of JavaScript can have. */
const ACCOUNT_NAME = /^(?!__proto__$)[a-z_][a-z0-9_-]{0,31}$/;
const PEOPLE = { first: 3000, count: 1000 } as const;

export class FakeAccounts implements Accounts {
  readonly #memory: FakeMemory;
  /** By instance. Not kept over a restart: the brain keeps the pair. */
  readonly #apps = new Map<string, AppIdentity>();

  constructor(memory: FakeMemory) {
    this.#memory = memory;
  }

  async verifyPassword(user: string, password: Uint8Array): Promise<boolean> {
    const account = accountOf(this.#memory.state, user);
    if (account === undefined || account.hash === "") return false;
    const hash = await derive(password, Buffer.from(account.salt, "hex"), HASH_BYTES);
    return timingSafeEqual(hash, Buffer.from(account.hash, "hex"));
  }

  async setPassword(user: string, password: Uint8Array): Promise<void> {
    requireName(user);
    const salt = randomBytes(16);
    const hash = (await derive(password, salt, HASH_BYTES)).toString("hex");
    await this.#memory.change((state) => {
      const { accounts, deleted } = state;
      const role = accountOf(state, user)?.role ?? "member";
      accounts[user] = { salt: salt.toString("hex"), hash, role };
      if (deleted.includes(user)) deleted.splice(deleted.indexOf(user), 1);
    });
  }

  async setRole(user: string, role: Role): Promise<void> {
    requireName(user);
    await this.#memory.change((state) => {
      state.accounts[user] = { ...(accountOf(state, user) ?? { salt: "", hash: "" }), role };
    });
  }

  async deleteUser(user: string): Promise<void> {
    if (!ACCOUNT_NAME.test(user)) return;
    await this.#memory.change(({ accounts, deleted }) => {
      delete accounts[user];
      if (!deleted.includes(user)) deleted.push(user);
    });
  }

  async home(user: string): Promise<UserHome> {
    if (!ACCOUNT_NAME.test(user) || this.#memory.state.deleted.includes(user)) {
      throw new HostAgentError("unknown-user");
    }
    const uid = PEOPLE.first + (spread(user) % PEOPLE.count);
    return { home_path: `/home/${user}`, uid, gid: uid };
  }

  async wellKnown() {
    return { malmo_app_uid: 2000, malmo_app_gid: 2000, malmo_shared_gid: 2001 };
  }

  async allocateAppService(instanceId: string): Promise<AppIdentity> {
    const known = this.#apps.get(instanceId);
    if (known !== undefined) return known;
    const taken = new Set([...this.#apps.values()].map(({ uid }) => uid));
    let uid: number = APP_SERVICE_BAND.min;
    while (taken.has(uid)) uid += 1;
    if (uid > APP_SERVICE_BAND.max) throw new HostAgentError("allocate-app-service-failed");
    const identity = { uid, gid: uid };
    this.#apps.set(instanceId, identity);
    return identity;
  }

  async releaseAppService(uid: number): Promise<void> {
    for (const [instance, identity] of this.#apps) {
      if (identity.uid === uid) this.#apps.delete(instance);
    }
  }

  async roles(): Promise<ReadonlyMap<string, Role>> {
    const people = Object.entries(this.#memory.state.accounts);
    return new Map(people.map(([name, { role }]) => [name, role]));
  }

  async appServices(): Promise<ReadonlyMap<string, AppIdentity>> {
    return this.#apps;
  }
}

/** `constructor` is a name like any other. */
function accountOf(
  { accounts }: FakeState,
  user: string,
): FakeState["accounts"][string] | undefined {
  return Object.hasOwn(accounts, user) ? accounts[user] : undefined;
}

function requireName(user: string): void {
  if (ACCOUNT_NAME.test(user)) return;
  throw new HostAgentError("bad-request", { message: "user is not a valid account name" });
}

/** FNV-1a, 32 bits. */
function spread(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}
