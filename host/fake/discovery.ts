/** The names a fake host pretends to announce; nothing is kept over a restart. */
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { Discovery, DiscoveryState, Published } from "../machine/discovery.ts";
import type { FakeMemory } from "./state.ts";

/** One label of a host name (RFC 1123). */
const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export class FakeDiscovery implements Discovery {
  readonly #memory: FakeMemory;
  readonly #published = new Map<string, Published>();

  constructor(memory: FakeMemory) {
    this.#memory = memory;
  }

  async publish(slug: string): Promise<Published> {
    if (!SLUG.test(slug)) {
      throw new HostAgentError("bad-request", {
        message: "slug must be one label of lower-case letters, digits and -",
      });
    }
    // The box itself has that name: the app gets the one beside it.
    const { hostname } = this.#memory.state;
    const name = slug === hostname ? `${slug}-${hostname}.local` : `${slug}.local`;
    const published = { name, state: "established" };
    this.#published.set(slug, published);
    return published;
  }

  async unpublish(slug: string): Promise<void> {
    this.#published.delete(slug);
  }

  async state(): Promise<DiscoveryState> {
    return {
      publisher: "avahi-fake",
      host_name: this.#memory.state.hostname,
      renamed_to: null,
      published: [...this.#published].map(([slug, published]) => ({ slug, ...published })),
      interfaces: ["eth0", "wlan0"],
    };
  }
}
