/** The door of what the SDK has for Node.js alone: a socket that knows authorities and can be dropped. */
export { type SocketSettings, socketOpener } from "./socket.ts";
