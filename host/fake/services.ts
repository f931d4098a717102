/** The optional services of a fake host: two switches each. */
import type { ServiceName, ServiceState, Services } from "../machine/services.ts";
import type { FakeMemory } from "./state.ts";

const OFF: ServiceState = { enabled: false, running: false };

export class FakeServices implements Services {
  readonly #memory: FakeMemory;

  constructor(memory: FakeMemory) {
    this.#memory = memory;
  }

  async state(name: ServiceName): Promise<ServiceState> {
    return this.#memory.state.services[name] ?? OFF;
  }

  async enable(name: ServiceName): Promise<ServiceState> {
    return await this.#become(name, { enabled: true, running: true });
  }

  async disable(name: ServiceName): Promise<ServiceState> {
    return await this.#become(name, OFF);
  }

  async restart(name: ServiceName): Promise<ServiceState> {
    const { enabled } = await this.state(name);
    return await this.#become(name, { enabled, running: true });
  }

  async #become(name: ServiceName, state: ServiceState): Promise<ServiceState> {
    return await this.#memory.change(({ services }) => {
      services[name] = state;
      return state;
    });
  }
}
