/**
 * Owns the one table of failures of the host-agent's socket: a code (lower case with hyphens, as the contract
 * writes it), its HTTP status and one sentence that carries nothing of the host. Nothing else may invent one.
 * Sources: the contract's routes, the wire reference's route table, the rulings on the host-agent.
 */

interface HostAgentErrorRow {
  readonly status: number;
  readonly message: string;
}

function row(status: number, message: string): HostAgentErrorRow {
  return { status, message };
}

export const HOST_AGENT_ERRORS = {
  // --- the request itself -----------------------------------------------------------------------
  "bad-json": row(400, "the body is not a JSON object of the expected types"),
  "bad-request": row(400, "the request is not valid"),
  "bad-path": row(400, "the path is not acceptable"),
  "not-found": row(404, "not found"),
  "method-not-allowed": row(405, "the method is not offered on this path"),
  "request-timeout": row(408, "the request did not arrive in time"),
  "body-too-large": row(413, "the body exceeds the limit of this route"),
  "headers-too-large": row(431, "the request's line and headers exceed the limit"),

  // --- what is not here ----------------------------------------------------------------------------
  "unknown-user": row(404, "user not found"),
  "unknown-job": row(404, "no such job"),
  "unknown-service": row(404, "no such service"),
  "unknown-connection": row(404, "no such network connection"),

  // --- what is otherwise than the request assumes ------------------------------------------------------
  "permission-denied": row(403, "the operating system refused access"),
  "auth-failed": row(403, "the credentials were not accepted"),
  exists: row(409, "it already exists"),
  "job-running": row(409, "a job of this kind is already running"),
  "idempotency-conflict": row(409, "the Idempotency-Key is spent on another request"),
  "hostname-conflict": row(409, "the name is taken on the network"),
  "blocked-by-health-issue": row(409, "a health issue blocks writes; see GET /v1/health/system"),
  "no-space": row(507, "no space is left on the disk"),

  // --- what can not be done now --------------------------------------------------------------------------
  "too-many-streams": row(503, "the limit of concurrent streams is reached"),
  "too-many-jobs": row(503, "the limit of jobs is reached"),
  "shutting-down": row(503, "host-agent is shutting down"),
  unavailable: row(503, "the service is not available; nothing was done"),
  "avahi-down": row(503, "the mDNS publisher is not running"),
  "no-signal": row(503, "the network is not in reach"),
  timeout: row(504, "no answer came in time; what became of it is unknown"),

  // --- what this host does not have ------------------------------------------------------------------------
  unsupported: row(501, "this host does not offer it"),
  "logs-unsupported": row(501, "no log source is available"),
  "update-unsupported": row(501, "updates are not available"),

  // --- what went wrong on the host: fixed texts, no host detail ------------------------------------------------
  "internal-error": row(500, "the request could not be served"),
  "publish-failed": row(500, "could not publish the name"),
  "unpublish-failed": row(500, "could not withdraw the name"),
  "sample-failed": row(500, "could not sample the resources"),
  "set-password-failed": row(500, "could not set the password"),
  "set-role-failed": row(500, "could not set the role"),
  "delete-user-failed": row(500, "could not delete the user"),
  "set-timezone-failed": row(500, "could not set the time zone"),
  "set-hostname-failed": row(500, "could not set the host name"),
  "resolve-home-failed": row(500, "could not resolve the user's home"),
  "well-known-identity-failed": row(500, "could not resolve the well-known identities"),
  "allocate-app-service-failed": row(500, "could not allocate an app-service identity"),
  "release-app-service-failed": row(500, "could not release the app-service identity"),
  "journal-follow-failed": row(500, "could not follow the log"),
  "network-failed": row(500, "the network operation failed"),
  "service-failed": row(500, "the service operation failed"),
  "files-failed": row(500, "the file operation failed"),

  // --- what a job's `error` can say besides ----------------------------------------------------------------------
  "job-failed": row(500, "the job failed"),
  "update-failed": row(500, "the update failed"),
  stalled: row(500, "the job ran over its time or made no progress; it was stopped"),
  "agent-restarted": row(503, "host-agent restarted before the job began; nothing was done"),
  "outcome-unknown": row(500, "host-agent restarted while the job ran; its outcome is unknown"),
} as const satisfies Record<string, HostAgentErrorRow>;

export type HostAgentErrorCode = keyof typeof HOST_AGENT_ERRORS;

export function isHostAgentErrorCode(code: unknown): code is HostAgentErrorCode {
  return typeof code === "string" && Object.hasOwn(HOST_AGENT_ERRORS, code);
}

/** A refusal as it stands in a body and in a job's `error`. */
export interface HostAgentRefusal {
  readonly code: string;
  readonly message: string;
}

/** A failure of this side as a value. Its message is sent as it is: no path, name or value in it. */
export class HostAgentError extends Error {
  override readonly name = "HostAgentError";
  readonly code: HostAgentErrorCode;
  readonly status: number;

  constructor(
    code: HostAgentErrorCode,
    options: { readonly message?: string; readonly cause?: unknown } = {},
  ) {
    const known: HostAgentErrorRow = HOST_AGENT_ERRORS[code];
    super(
      options.message ?? known.message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.status = known.status;
  }

  /** What is sent and recorded of it. */
  get refusal(): HostAgentRefusal {
    return { code: this.code, message: this.message };
  }
}
