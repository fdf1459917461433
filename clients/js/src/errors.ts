/** The errors of a gateway and of the way to it. */

/** What kind of failure a problem is. A gateway that is newer than this list may send others. */
export type ProblemClass =
  // of a sandbox's life
  | "no_sandbox" | "paused" | "ended" | "gone" | "not_kept" | "no_lifetime" | "deadline" | "owned" | "drift" | "egress" | "isolation"
  | "image" | "cannot_start" | "crash_loop" | "no_storage_class" | "unschedulable" | "not_ready" | "rejected"
  // of files
  | "not_exist" | "exist" | "permission" | "is_directory" | "not_directory" | "not_empty" | "not_regular"
  | "read_only" | "no_space" | "quota" | "too_large" | "busy" | "name_too_long" | "loop" | "cross_device"
  | "changed" | "checksum" | "binary" | "edit" | "pattern" | "protected" | "archive" | "unsafe_archive"
  // of commands
  | "not_executable" | "stdin_closed" | "stdin_gap" | "process_done" | "exec_expired" | "stalled" | "agent_lost"
  // of requests, and of who sends them
  | "invalid" | "unsupported" | "conflict" | "unauthenticated" | "not_allowed" | "rate" | "streams"
  | "quota_exceeded" | "budget_exceeded" | "exhausted" | "cancelled" | "git"
  // of the way to a sandbox
  | "unavailable" | "cut" | "io" | "no_server" | "bad_answer" | "no_session" | "connection_refused" | "connection_reset" | "unassigned" | "unspecified";

/** The body of an answer that says what failed: problem details (RFC 9457). */
export interface Problem {
  status: number;
  title: string;
  detail: string;
  class: string;
  /** When a quota or budget that is used up may have room. */
  until?: string;
  /** How much input a command had taken, if other input was refused. */
  offset?: number;
  /** The command that runs on, though the gateway ended before it. */
  exec_id?: string;
  errors?: { location?: string; message?: string }[];
}

/** An error of this package. */
export class PodagentError extends Error {
  override name = "PodagentError";
}

/** The gateway refused a call, or the call failed. {@link isProblem} tells which kind it is. */
export class ProblemError extends PodagentError {
  override name = "ProblemError";
  /** What kind of failure it is, for programs. */
  readonly class: ProblemClass;
  readonly status: number;
  readonly problem: Problem;
  /** After how many seconds the same call may succeed, if the gateway says so. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem, retryAfter?: number) {
    super(`${problem.detail || problem.title} (${problem.class})`);
    this.class = problem.class as ProblemClass;
    this.status = problem.status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/** No gateway answered, or what answered is none. The cause says more. */
export class UnreachableError extends PodagentError {
  override name = "UnreachableError";
}

/** An answer ended before it was complete. What it was about may have happened. */
export class CutError extends UnreachableError {
  override name = "CutError";
}

/** Reports whether an error is a problem, of one of the classes if any are given. */
export function isProblem<C extends ProblemClass>(error: unknown, ...classes: C[]): error is ProblemError & { readonly class: C } {
  return error instanceof ProblemError && (classes.length === 0 || (classes as string[]).includes(error.class));
}

/** Makes an error of an answer that is none of success. */
export async function errorOf(response: Response): Promise<PodagentError> {
  const text = await response.text().catch(() => "");
  const wait = Number(response.headers.get("retry-after") ?? NaN);
  if (response.headers.get("content-type")?.startsWith("application/problem+json")) {
    try {
      return new ProblemError(JSON.parse(text) as Problem, Number.isFinite(wait) ? wait : undefined);
    } catch {
      // it is no JSON: a gateway sends none such
    }
  }
  return new UnreachableError(`the answer is of no gateway: ${response.status} ${response.statusText}: ${text.slice(0, 200)}`);
}
