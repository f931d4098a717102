/** Declares the network: what is connected, WiFi, addresses, and the changes as they happen. */
import { z } from "zod";
import { done, requiredText, route } from "../route.ts";

const ethernet = z.object({
  connection_id: z.string(),
  iface: z.string(),
  connected: z.boolean(),
  speed_mbps: z.int().nonnegative().describe("0 is not known."),
});

const wifi = z.object({
  connection_id: z.string().describe('"" when it is not saved.'),
  ssid: z.string(),
  connected: z.boolean(),
  signal: z.int().describe("dBm."),
  secured: z.boolean(),
  saved: z.boolean(),
});

const address = z.object({
  address: z.string().describe('With its prefix length; "" is none.'),
  gateway: z.string(),
  dns: z.array(z.string()),
});

export const networkState = route({
  name: "networkState",
  method: "GET",
  path: "/v1/network/state",
  summary: "Connections, WiFi networks, and the addresses of each connection by its id.",
  result: z.object({
    primary: z.string().describe('A connection id; "" is none.'),
    ethernet: z.array(ethernet),
    wifi: z.array(wifi),
    ipv4: z.record(z.string(), address.extend({ mode: z.enum(["dhcp", "static"]) })),
    ipv6: z.record(z.string(), address),
  }),
  failure: "network-failed",
});

export const networkEvents = route({
  name: "networkEvents",
  method: "GET",
  path: "/v1/network/events",
  summary: "Signal, drop and primary changes as they happen; a reconnect begins with a lost frame.",
  result: z.union([
    z.object({
      type: z.literal("signal"),
      ts: z.iso.datetime(),
      ssid: z.string(),
      signal: z.int(),
    }),
    z.object({ type: z.literal("connected"), ts: z.iso.datetime(), connection_id: z.string() }),
    z.object({ type: z.literal("dropped"), ts: z.iso.datetime(), connection_id: z.string() }),
    z.object({ type: z.literal("primary"), ts: z.iso.datetime(), connection_id: z.string() }),
    z.object({ lost: z.literal(true) }),
  ]),
  errors: ["too-many-streams"],
  failure: "network-failed",
  stream: "sse",
});

export const wifiScan = route({
  name: "wifiScan",
  method: "POST",
  path: "/v1/network/wifi/scan",
  effect: "read",
  summary: "The WiFi networks in reach.",
  body: z.object({}),
  result: z.object({
    networks: z.array(
      z.object({ ssid: z.string(), signal: z.int(), secured: z.boolean(), freq_mhz: z.int() }),
    ),
  }),
  failure: "network-failed",
});

export const wifiConnect = route({
  name: "wifiConnect",
  method: "POST",
  path: "/v1/network/wifi/connect",
  summary:
    "Joins a WiFi network and saves it; the password is kept by the network's own store only.",
  body: z.object({
    ssid: requiredText("ssid is required"),
    password: z.string().default(""),
    hidden: z.boolean().default(false),
  }),
  result: z.object({ connection_id: z.string(), state: z.literal("activated") }),
  errors: ["bad-request", "auth-failed", "no-signal", "timeout"],
  failure: "network-failed",
});

const connectionId = requiredText("connection_id is required");

export const wifiForget = route({
  name: "wifiForget",
  method: "POST",
  path: "/v1/network/wifi/forget",
  summary: "Forgets a saved WiFi network; one that is not saved is as good.",
  body: z.object({ connection_id: connectionId }),
  result: done,
  errors: ["bad-request"],
  failure: "network-failed",
});

export const setPrimary = route({
  name: "setPrimary",
  method: "POST",
  path: "/v1/network/connection/set-primary",
  summary: "Makes one connection the primary one; exactly one is.",
  body: z.object({ connection_id: connectionId }),
  result: done,
  errors: ["bad-request", "unknown-connection"],
  failure: "network-failed",
});

const STATIC = "a static configuration needs an address with its prefix length";

export const configureIp = route({
  name: "configureIp",
  method: "POST",
  path: "/v1/network/connection/configure-ip",
  summary: "Gives a connection its address by DHCP or a fixed one.",
  body: z.object({
    connection_id: connectionId,
    ipv4: z.discriminatedUnion(
      "mode",
      [
        z.object({ mode: z.literal("dhcp") }),
        z.object({
          mode: z.literal("static"),
          address: z.cidrv4({ error: STATIC }),
          gateway: z
            .union([z.ipv4(), z.literal("")], { error: "gateway must be an IPv4 address" })
            .default("")
            .describe('"" is none.'),
          dns: z
            .array(z.ipv4({ error: "dns must be IPv4 addresses" }))
            .max(8)
            .default([]),
        }),
      ],
      { error: "ipv4.mode must be dhcp or static" },
    ),
  }),
  result: done,
  errors: ["bad-request", "unknown-connection"],
  failure: "network-failed",
});
