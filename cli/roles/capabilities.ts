/** Owns what a worker of this version declares it can do: one key a method, with its version. */
export const NODE_CAPABILITIES = {
  "node.host.info": { version: 1 },
  "node.fs.list": { version: 1 },
  "node.fs.stat": { version: 1 },
  "node.fs.read": { version: 1 },
  "node.fs.write": { version: 1 },
  "node.fs.mkdir": { version: 1 },
  "node.fs.move": { version: 1 },
  "node.fs.delete.preview": { version: 1 },
  "node.fs.delete": { version: 1 },
  "node.process.run": { version: 1 },
  "node.process.get": { version: 1 },
  "node.process.cancel": { version: 1 },
} as const;
