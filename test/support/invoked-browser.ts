/** Owns a door with one operator and one browser that is a node, for tests of `node.invoke`. */
import { expect } from "chai";
import { type DoorNode, NodeDoor } from "./node-door.ts";
import type { Party } from "./party.ts";

/** As a refusal is told: its wire code and its message. */
export const told = ({ code, message }: { readonly code: string; readonly message: string }) =>
  `${code}: ${message}`;

export class InvokedBrowser {
  readonly door: NodeDoor;
  readonly browser: DoorNode;
  /** The browser's own connection. */
  readonly node: Party;
  readonly caller: Party;

  private constructor(door: NodeDoor, browser: DoorNode, node: Party, caller: Party) {
    this.door = door;
    this.browser = browser;
    this.node = node;
    this.caller = caller;
  }

  static async open(): Promise<InvokedBrowser> {
    const door = await NodeDoor.open();
    const browser = await door.pair("browser-1");
    const node = await door.connect(browser);
    return new InvokedBrowser(door, browser, node, await door.operator());
  }

  close(): Promise<void> {
    return this.door.close();
  }

  invoke(more: object = {}, by = this.caller) {
    const { nodeId } = this.browser;
    return by.call("node.invoke", { nodeId, method: "browser.click", ...more });
  }

  /** The next outcome that is told to `by`. */
  async completed(by = this.caller) {
    const { event, payload } = await by.event();
    expect(event).to.equal("node.invoke.completed");
    return payload;
  }
}
