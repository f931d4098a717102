/** Owns what a worker of this version declares it can do: one key a method, with its version. */
export const NODE_CAPABILITIES = {
  "node.host.info": { version: 1 },
  "node.process.run": { version: 1 },
  "node.process.get": { version: 1 },
  "node.process.cancel": { version: 1 },
} as const;
