/**
 * Owns what can be wanted of a host: the settings, each with how its value is checked, read out of the state
 * summary, compared field by field, and brought into effect.
 *
 * 1. Bringing a value into effect is idempotent, so that it may be done again after a crash.
 * 2. Nothing that destroys (a user's home, a drive) and nothing with a credential is a setting.
 */
import { z } from "zod";
import { configureIp, setPrimary } from "../../protocol/host-agent/routes/network.ts";
import type { ReconciledHost, StateSummary } from "./host.ts";

/** A value as the host reports it; null when the host does not have what the setting is about. */
export type Actual = unknown;

interface Domain<Value, Input = unknown> {
  readonly value: z.ZodType<Value, Input>;
  /** Whether settings of this domain carry a name behind a slash. */
  readonly named: boolean;
  actual(summary: StateSummary, name: string): Actual;
  matches(wanted: Value, actual: Actual): boolean;
  apply(host: ReconciledHost, name: string, wanted: Value): Promise<unknown>;
  /** The host's own value as one that could be wanted, where it reads otherwise. */
  wantable?(actual: Actual): unknown;
}

function domain<Value, Input>(spec: Domain<Value, Input>): Domain<Value, Input> {
  return spec;
}

/** A name may be any text, `__proto__` too. */
function own<T>(all: Readonly<Record<string, T>>, name: string): T | null {
  return Object.hasOwn(all, name) ? (all[name] ?? null) : null;
}

const same = (wanted: unknown, actual: Actual): boolean => wanted === actual;

const services = domain({
  value: z.object({ enabled: z.boolean() }),
  named: true,
  actual: ({ services: all }, name) => own(all, name),
  matches: ({ enabled }, actual) => fields(actual)["enabled"] === enabled,
  apply: (host, name, { enabled }) =>
    host.call(enabled ? "serviceEnable" : "serviceDisable", { params: { name }, body: {} }),
});

const discovery = domain({
  value: z.object({ published: z.boolean() }),
  named: true,
  actual: ({ discovery: all }, slug) => ({ published: Object.hasOwn(all, slug) }),
  matches: ({ published }, actual) => fields(actual)["published"] === published,
  apply: (host, slug, { published }) =>
    published
      ? host.call("discoveryPublish", { body: { slug } })
      : host.call("discoveryUnpublish", { body: { slug } }),
});

const ipv4 = configureIp.body.shape.ipv4;

const connections = domain({
  value: ipv4,
  named: true,
  actual: ({ network }, id) => own(network.connections, id)?.ipv4 ?? null,
  matches(wanted, actual) {
    const { mode, address, gateway, dns } = fields(actual);
    if (wanted.mode !== mode) return false;
    if (wanted.mode === "dhcp") return true;
    return (
      wanted.address === address &&
      (wanted.gateway ?? "") === gateway &&
      JSON.stringify(wanted.dns) === JSON.stringify(dns)
    );
  },
  apply: (host, id, wanted) =>
    host.call("configureIp", { body: { connection_id: id, ipv4: wanted } }),
  wantable(actual) {
    const { gateway, ...rest } = fields(actual);
    return gateway === "" ? rest : { ...rest, gateway };
  },
});

const primary = domain({
  value: setPrimary.body.shape.connection_id,
  named: false,
  actual: ({ network }) => network.primary,
  matches: same,
  apply: (host, _name, id: string) => host.call("setPrimary", { body: { connection_id: id } }),
});

const users = domain({
  value: z.object({ role: z.enum(["admin", "member"]) }),
  named: true,
  actual: ({ users: all }, name) => own(all, name),
  matches: ({ role }, actual) => fields(actual)["role"] === role,
  apply: (host, user, { role }) => host.call("setRole", { body: { user, role } }),
});

const zone = domain({
  value: z.string().min(1),
  named: false,
  actual: ({ time }) => time.zone,
  matches: same,
  apply: (host, _name, wanted: string) => host.call("setTimezone", { body: { zone: wanted } }),
});

const hostname = domain({
  value: z.string().min(1),
  named: false,
  actual: ({ host }) => host.hostname,
  matches: same,
  apply: (host, _name, wanted: string) => host.call("setHostname", { body: { hostname: wanted } }),
});

const DOMAINS: readonly (readonly [prefix: string, spec: Domain<unknown>])[] = [
  // Each domain keeps its own type of value; behind this list a value is what its `parse` made of it.
  ["services", services],
  ["discovery", discovery],
  ["network/connections", connections],
  ["network/primary", primary],
  ["users", users],
  ["time/zone", zone],
  ["host/hostname", hostname],
].map(([prefix, spec]) => [prefix as string, spec as unknown as Domain<unknown>]);

/** What may be wanted, by its key. */
export interface SettingValues {
  [service: `services/${string}`]: z.input<typeof services.value>;
  [slug: `discovery/${string}`]: z.input<typeof discovery.value>;
  [connection: `network/connections/${string}`]: z.input<typeof connections.value>;
  [user: `users/${string}`]: z.input<typeof users.value>;
  "network/primary": string;
  "time/zone": string;
  "host/hostname": string;
}
export type SettingKey = keyof SettingValues;

/** One setting, whose domain is looked up once. */
export interface Setting {
  readonly key: string;
  /** Checks and completes a value. Throws `TypeError`, without the value in its text. */
  parse(value: unknown): unknown;
  actual(summary: StateSummary): Actual;
  matches(wanted: unknown, actual: Actual): boolean;
  apply(host: ReconciledHost, wanted: unknown): Promise<void>;
  /** The host's value as one that is wanted from now on; undefined when it is none. */
  adopt(actual: Actual): unknown;
}

/** Throws `TypeError` for a key that is none. */
export function settingOf(key: string): Setting {
  for (const [prefix, spec] of DOMAINS) {
    const name = nameIn(key, prefix, spec.named);
    if (name !== null) return bound(key, name, spec);
  }
  throw new TypeError("no such setting");
}

function nameIn(key: string, prefix: string, named: boolean): string | null {
  if (!named) return key === prefix ? "" : null;
  const name = key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : "";
  return name === "" ? null : name;
}

function bound(key: string, name: string, spec: Domain<unknown>): Setting {
  return {
    key,
    parse(value) {
      const parsed = spec.value.safeParse(value);
      if (!parsed.success) throw new TypeError(`not a value of the setting ${key.split("/")[0]}`);
      return parsed.data;
    },
    actual: (summary) => spec.actual(summary, name),
    matches: (wanted, actual) => actual !== null && spec.matches(wanted, actual),
    async apply(host, wanted) {
      await spec.apply(host, name, wanted);
    },
    adopt: (actual) =>
      actual === null ? undefined : spec.value.safeParse(spec.wantable?.(actual) ?? actual).data,
  };
}

function fields(actual: Actual): Readonly<Record<string, unknown>> {
  return typeof actual === "object" && actual !== null
    ? (actual as Readonly<Record<string, unknown>>)
    : {};
}
