/**
 * Owns the one table of failures. Nothing else may invent a code: a classification (lower case, as
 * the contract writes it) maps to its wire code, to whether the same request may be sent again, and
 * to what it says about a mutation. Source: node-host-io.md and the rulings on `/ws`.
 */

/** The `error.code` values a `/ws` client can meet. */
export const WIRE_CODES = [
  "INVALID_REQUEST",
  "INVALID_PARAMS",
  "METHOD_NOT_FOUND",
  "UNAUTHORIZED",
  "FORBIDDEN",
  "PERMISSION_DENIED",
  "NOT_FOUND",
  "CONFLICT",
  "RATE_LIMITED",
  "TIMEOUT",
  "INTERNAL_ERROR",
  "NOT_IMPLEMENTED",
  "HANDSHAKE_REQUIRED",
  "ALREADY_CONNECTED",
  "UNAVAILABLE",
] as const;
export type WireCode = (typeof WIRE_CODES)[number];

/**
 * What a failure says about the mutation it answers: `refused` is "nothing happened",
 * `unknown` is "something may have happened; read before you send anything else".
 */
type Outcome = "refused" | "unknown";

interface ErrorRow {
  readonly wire: WireCode;
  /** True when the very same request may be sent again without any read before it. */
  readonly retrySafe: boolean;
  readonly outcome: Outcome;
  /** One sentence, free of content, that tells the caller what is so and what to do next. */
  readonly message: string;
}

function row(
  wire: WireCode,
  retrySafe: boolean,
  message: string,
  outcome: Outcome = "refused",
): ErrorRow {
  return { wire, retrySafe, outcome, message };
}

export const ERRORS = {
  // --- the request itself -----------------------------------------------------------------------
  invalid_request: row("INVALID_REQUEST", false, "The request is not valid"),
  invalid_params: row("INVALID_REQUEST", false, "The parameters are not valid"),
  invalid_base64: row("INVALID_REQUEST", false, "The data is not standard base64"),
  too_large: row("INVALID_REQUEST", false, "The request exceeds a size bound"),
  invalid_path: row("INVALID_REQUEST", false, "The path is not acceptable"),
  duplicate_request_id: row(
    "INVALID_REQUEST",
    false,
    "A request with this id is still in flight on this connection",
  ),
  method_not_found: row("METHOD_NOT_FOUND", false, "Unknown method"),
  handshake_required: row("HANDSHAKE_REQUIRED", true, "Must send connect request first"),
  already_connected: row("ALREADY_CONNECTED", false, "Connection already established"),
  unauthorized: row("UNAUTHORIZED", false, "Authentication is required"),
  forbidden: row("FORBIDDEN", false, "Insufficient permissions"),
  rate_limited: row("RATE_LIMITED", true, "Too many attempts; wait before the next one"),
  too_many_requests_in_flight: row(
    "RATE_LIMITED",
    true,
    "Too many requests are in flight on this connection",
  ),
  response_too_large: row(
    "UNAVAILABLE",
    false,
    "The answer exceeds the connection's maxPayload",
    "unknown",
  ),
  not_implemented: row("NOT_IMPLEMENTED", false, "This build does not offer the method"),
  internal_error: row("INTERNAL_ERROR", false, "Method execution failed", "unknown"),
  conflict: row("CONFLICT", false, "The request conflicts with what is already so"),

  // --- the control plane's own door ------------------------------------------------------------------
  port_in_use: row(
    "CONFLICT",
    true,
    "The port is already in use; stop what listens there or choose another with --port",
  ),
  listen_refused: row("UNAVAILABLE", false, "The address can not be listened on; check --host"),
  tls_unusable: row(
    "UNAVAILABLE",
    false,
    "The TLS certificate or key can not be used; check --tls-cert and --tls-key",
  ),
  operator_token_unusable: row(
    "FORBIDDEN",
    false,
    "The operator token's file can not be used; remove it, or set LEMON_CONTROL_PLANE_OPERATOR_TOKEN",
  ),
  too_many_connections: row(
    "RATE_LIMITED",
    true,
    "The control plane serves its limit of connections; try again later",
  ),

  // --- what a client knows by itself ----------------------------------------------------------------
  invalid_response: row(
    "INTERNAL_ERROR",
    false,
    "The answer is none that this version understands",
    "unknown",
  ),
  aborted: row("TIMEOUT", false, "The caller stopped waiting for the answer", "unknown"),

  // --- nodes --------------------------------------------------------------------------------------
  node_not_found: row("NOT_FOUND", false, "Node not found"),
  node_offline: row("UNAVAILABLE", true, "The node is not online; nothing was delivered"),
  node_name_in_use: row("CONFLICT", false, "Node name is already in use"),
  node_revoked: row("UNAUTHORIZED", false, "The node's credentials were revoked; join it again"),
  node_superseded: row("CONFLICT", false, "A newer worker serves this node"),
  capability_missing: row("UNAVAILABLE", false, "The node does not offer this capability"),
  invoke_not_found: row("NOT_FOUND", false, "Invocation not found"),
  invoke_settled: row("CONFLICT", false, "Invocation is no longer pending"),
  device_not_found: row("NOT_FOUND", false, "Device not found"),
  pairing_not_found: row("NOT_FOUND", false, "Pairing request not found"),
  pairing_not_pending: row("INVALID_REQUEST", false, "Pairing request is not pending"),
  pairing_expired: row("INVALID_REQUEST", false, "Pairing request has expired"),

  // --- files and directories ------------------------------------------------------------------------
  path_not_allowed: row("FORBIDDEN", false, "The path is outside the node's allowed roots"),
  permission_denied: row("FORBIDDEN", false, "The operating system refused access"),
  not_found: row("NOT_FOUND", false, "Not found"),
  not_directory: row("INVALID_REQUEST", false, "Not a directory"),
  is_directory: row("INVALID_REQUEST", false, "It is a directory"),
  not_regular: row("INVALID_REQUEST", false, "It is not a regular file"),
  directory_not_empty: row("INVALID_REQUEST", false, "The directory is not empty"),
  cross_device: row(
    "INVALID_REQUEST",
    false,
    "Source and destination lie on different file systems",
  ),
  already_exists: row("CONFLICT", false, "The destination already exists"),
  stale_preview: row(
    "CONFLICT",
    false,
    "It is not what was previewed any more; preview it again, and have that confirmed",
  ),
  invalid_confirmation: row(
    "CONFLICT",
    false,
    "The confirmation is not the path as it was previewed; nothing was deleted",
  ),
  invalid_confirmation_token: row(
    "CONFLICT",
    false,
    "The confirmation token is none that stands; preview it again",
  ),
  atomic_move_unavailable: row(
    "UNAVAILABLE",
    false,
    "The file system can not move without replacing; nothing was moved",
  ),
  filesystem_busy: row("UNAVAILABLE", true, "The file service has no room now; nothing was done"),
  preview_too_large: row(
    "UNAVAILABLE",
    false,
    "The tree is too large to delete in one go; delete parts of it first",
  ),
  read_only_filesystem: row("UNAVAILABLE", false, "The file system is read-only"),
  filesystem_outcome_unknown: row(
    "UNAVAILABLE",
    false,
    "The outcome is unknown; read what is there before anything else",
    "unknown",
  ),

  // --- processes --------------------------------------------------------------------------------------
  executable_not_found: row(
    "INVALID_REQUEST",
    false,
    "The executable was not found; the id is spent",
  ),
  argument_list_too_long: row(
    "INVALID_REQUEST",
    false,
    "The operating system refused the argument list as too long; the id is spent",
  ),
  process_id_conflict: row("CONFLICT", false, "The process id is spent on another intent"),
  process_generation_mismatch: row(
    "CONFLICT",
    false,
    "The run belongs to another worker life of this node",
  ),
  process_receipt_limit: row(
    "UNAVAILABLE",
    false,
    "The node retains its limit of process ids; use another node",
  ),
  too_many_processes: row(
    "UNAVAILABLE",
    true,
    "The node already runs its limit of processes; the id is not spent",
  ),
  process_stop_failed: row(
    "UNAVAILABLE",
    false,
    "The process group could not be stopped; it may still run",
    "unknown",
  ),
  process_outcome_unknown: row(
    "UNAVAILABLE",
    false,
    "The outcome is unknown; read the receipt before anything else",
    "unknown",
  ),
  spawn_failed: row(
    "UNAVAILABLE",
    false,
    "The operating system could not start the process; the id is spent",
  ),

  // --- receipts -----------------------------------------------------------------------------------------
  receipt_store_unavailable: row(
    "UNAVAILABLE",
    true,
    "The receipt store does not answer; nothing was admitted",
  ),
  receipt_store_damaged: row(
    "UNAVAILABLE",
    false,
    "The receipt store is damaged or foreign; the node must join again under a new id",
  ),
  durability_unproven: row(
    "UNAVAILABLE",
    true,
    "The receipt store could not prove that it syncs; nothing was admitted",
  ),
  no_space: row("UNAVAILABLE", true, "No space is left on the node's disk; nothing was admitted"),
  receipt_revision_limit: row(
    "UNAVAILABLE",
    false,
    "The receipt has no revision left for this change; it keeps its state",
  ),

  // --- secrets ------------------------------------------------------------------------------------------
  secret_name_reserved: row(
    "FORBIDDEN",
    false,
    "Names below lemon_bot/invocations/ are reserved; nothing was changed",
  ),
  secret_resolution_failed: row("UNAVAILABLE", false, "A secret could not be resolved"),
  secret_not_found: row("NOT_FOUND", false, "There is no such secret"),
  secret_operation_conflict: row(
    "CONFLICT",
    false,
    "The operation id is spent on another intent, or its secret was changed since",
  ),
  secret_receipt_capacity: row(
    "UNAVAILABLE",
    false,
    "The name holds its limit of receipts; the secret was not touched",
  ),
  secret_name_limit: row(
    "UNAVAILABLE",
    false,
    "The vault holds its limit of names; nothing was changed",
  ),
  secret_destroyed: row("INVALID_REQUEST", false, "The value was destroyed before it was used"),
  secret_key_missing: row(
    "UNAVAILABLE",
    false,
    "No master key is configured on the destination; `lemon secrets init` makes one there",
  ),
  secret_key_mismatch: row(
    "UNAVAILABLE",
    false,
    "The destination's master key is not the one its secrets are under; restore that one",
  ),
  secret_key_exists: row("CONFLICT", false, "There is a master key already; nothing was changed"),
  secret_key_busy: row(
    "UNAVAILABLE",
    true,
    "Another process changes the master key at this moment; nothing was changed, do it again",
  ),
  secret_key_limit: row(
    "UNAVAILABLE",
    false,
    'The machine keeps 1,000 earlier master keys and drops none by itself; see "Secrets" in docs/operator.md',
  ),
  secret_key_external: row(
    "CONFLICT",
    false,
    "The master key comes from the environment; set the new one there, with the earlier one in LEMON_SECRETS_MASTER_KEY_PREVIOUS, and start again",
  ),
  weak_master_key: row("UNAVAILABLE", false, "The master key is not base64 of at least 32 bytes"),
  secret_store_unavailable: row(
    "UNAVAILABLE",
    true,
    "The vault's store does not answer; nothing was done",
  ),
  secret_store_damaged: row(
    "UNAVAILABLE",
    false,
    "A record of the vault is missing, damaged or foreign; an operator must repair it",
  ),
  secret_outcome_unknown: row(
    "UNAVAILABLE",
    false,
    "The outcome is unknown; read the receipt before anything else",
    "unknown",
  ),

  // --- the nats-server child ------------------------------------------------------------------------------
  nats_server_missing: row(
    "UNAVAILABLE",
    false,
    "nats-server was not found; install it on PATH or name it in LEMON_NATS_SERVER",
  ),
  nats_server_too_old: row(
    "UNAVAILABLE",
    false,
    "nats-server is too old; lemon needs at least 2.12.7",
  ),
  nats_server_failed: row(
    "UNAVAILABLE",
    true,
    "nats-server did not start or ended unexpectedly; its log says why",
  ),
  nats_server_silent: row(
    "UNAVAILABLE",
    true,
    "nats-server did not answer any more and was killed; it is started again",
  ),
  controller_keys_lost: row(
    "UNAVAILABLE",
    false,
    "The controller's keys are missing, damaged or not those of its hub; restore them from a copy, or start with a new state folder and join the nodes again",
  ),
  store_in_use: row(
    "CONFLICT",
    false,
    "Another process holds this store and could not be proven to be a leftover of ours",
  ),

  // --- this machine's own roles -------------------------------------------------------------------------
  identity_in_use: row("CONFLICT", false, "Another live process already serves this identity"),
  home_unusable: row("UNAVAILABLE", false, "The state folder can not be used"),
  socket_in_use: row("CONFLICT", false, "Another live process serves this socket"),
  socket_refused: row("UNAVAILABLE", false, "The socket can not be made there; see --socket"),
  group_unusable: row("FORBIDDEN", false, "The socket's group can not be used; see --group"),

  // --- the controller's documents -----------------------------------------------------------------------
  revision_conflict: row("CONFLICT", false, "It changed meanwhile; read it again before you write"),
  document_store_damaged: row(
    "UNAVAILABLE",
    false,
    "The controller's store holds something that is not its own; nothing was changed",
  ),

  // --- outcomes of calls that cross machines ------------------------------------------------------------
  timeout: row("TIMEOUT", false, "No answer within the deadline", "unknown"),
  invalid_remote_payload: row(
    "UNAVAILABLE",
    false,
    "The node's answer is not valid; what it did is unknown",
    "unknown",
  ),
  link_lost: row("UNAVAILABLE", false, "The link was cut before the answer came", "unknown"),
  unavailable: row("UNAVAILABLE", true, "The service is not available; nothing was done"),
  measurement_failed: row("UNAVAILABLE", true, "The host could not be measured"),

  // --- actors ---------------------------------------------------------------------------------------------
  mailbox_full: row("UNAVAILABLE", true, "The actor's mailbox is full; nothing was done"),
  actor_unavailable: row("UNAVAILABLE", true, "The actor is not running; nothing was done"),
  actor_already_started: row(
    "CONFLICT",
    false,
    "An actor with this id already lives here; nothing was done",
  ),
  actor_ended: row("UNAVAILABLE", false, "The actor ended before it answered", "unknown"),
  restart_intensity_exceeded: row(
    "UNAVAILABLE",
    true,
    "The supervisor gave up after too many restarts; nothing was done",
  ),
  actor_crashed: row(
    "INTERNAL_ERROR",
    false,
    "The actor crashed while it handled the message",
    "unknown",
  ),
  deadline_exceeded: row(
    "TIMEOUT",
    false,
    "The actor did not answer within the deadline",
    "unknown",
  ),
  message_expired: row(
    "TIMEOUT",
    true,
    "The deadline passed before the actor took the message; nothing was done",
  ),
} as const satisfies Record<string, ErrorRow>;

/** A classification from the table, as it stands in `error.details.code`. */
export type ErrorCode = keyof typeof ERRORS;

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && Object.hasOwn(ERRORS, code);
}

/** JSON context that may travel with an error. Never a path, argument, byte, secret or token. */
export type ErrorDetails = Readonly<Record<string, string | number | boolean | null>>;

interface LemonErrorOptions {
  /** Replaces the table's sentence; as free of content as that one. */
  readonly message?: string;
  readonly details?: ErrorDetails;
  /** Overrides the table when this very failure is known better (a timeout before anything was sent). */
  readonly wire?: WireCode;
  readonly retrySafe?: boolean;
  readonly mutationMayHaveApplied?: boolean;
  /** For the log of this process only; never crosses an actor, a node or a socket. */
  readonly cause?: unknown;
}

/** A failure as a value: the only kind of error that crosses an actor, a node or a socket. */
export class LemonError extends Error {
  override readonly name = "LemonError";
  readonly code: ErrorCode;
  readonly wire: WireCode;
  readonly retrySafe: boolean;
  readonly mutationMayHaveApplied: boolean;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, options: LemonErrorOptions = {}) {
    const known: ErrorRow = ERRORS[code];
    super(
      options.message ?? known.message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.wire = options.wire ?? known.wire;
    this.retrySafe = options.retrySafe ?? known.retrySafe;
    this.mutationMayHaveApplied = options.mutationMayHaveApplied ?? known.outcome === "unknown";
    this.details = options.details ?? {};
  }
}
