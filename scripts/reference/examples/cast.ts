/** Owns whom and what all examples speak of, and what a room of examples has to hold. */
import type { InputOf, MethodName, ResultOf } from "../../../protocol/methods.ts";

/** One call and its answer for each of these methods. */
export type Examples<M extends MethodName> = {
  readonly [Name in M]: { readonly params: InputOf<Name>; readonly result: ResultOf<Name> };
};
export type ExamplesOf<Room extends readonly { readonly name: MethodName }[]> = Examples<
  Room[number]["name"]
>;

export const nodeId = "85ccdaa0-ff5f-4e1d-b2aa-9449409bc2d5";
export const nodeName = "worker-1";
export const deviceName = "phone-1";
export const pairingId = "6f0d6f0e-4f5e-4a55-9a43-0d7a3a9b6b1c";
export const invokeId = "3b7e6f0a-2f63-4f0e-9f0e-1a7d5a0b9c11";
/** The moment of all examples: 2026-11-30T17:00:00Z. */
export const atMs = 1_796_058_000_000;
export const capabilities = {
  "node.process.run": { version: 1 },
  "node.host.info": { version: 1 },
};
