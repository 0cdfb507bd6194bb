/** What one person asked for; in force for what is sent while it is under way. */
export interface Task {
  /**
   * Take what the person says next in a conversation. Their own words, never a model's or a
   * document's.
   */
  says(words: string): void;
}

export interface Grant {
  /** The only tools that the task needs, as `server/tool`: a gateway denies every other one. */
  tools?: readonly string[];
}

/** What the transports of the MCP SDK take as `fetch`. */
export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Make a `fetch` that declares the task under way. Use it for a gateway alone: whoever answers
 * there is told the person's words.
 */
export function declaring(send?: Fetch): Fetch;

/**
 * Declare what a person asked for with every request that `work` sends; return what it does.
 *
 * `words` are the person's own: what a model, a document or another agent wrote is not to be among
 * them, for a gateway takes what they name for chosen by the person. Rejects where a task is under
 * way: its run has seen what this one would not know of.
 */
export function task<T>(words: string, work: (task: Task) => Promise<T>, grant?: Grant): Promise<T>;

/** Declare what a person says in a conversation: one run, and words that come with `says`. */
export function conversation<T>(work: (task: Task) => Promise<T>, grant?: Grant): Promise<T>;
