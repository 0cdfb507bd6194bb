// What a program in TypeScript finds beside the language, as far as no library of Deno's declares it.
declare class ToolError extends Error {
  constructor(code: string, message: string);
  readonly code: string;
}

declare namespace console {
  function log(...things: unknown[]): void;
  function info(...things: unknown[]): void;
  function debug(...things: unknown[]): void;
  function warn(...things: unknown[]): void;
  function error(...things: unknown[]): void;
  function trace(...things: unknown[]): void;
  function dir(thing?: unknown): void;
  function table(thing?: unknown): void;
}

declare const performance: { now(): number; readonly timeOrigin: number };

declare function queueMicrotask(work: () => void): void;
declare function setTimeout<T extends unknown[]>(work: (...given: T) => void, ms?: number, ...given: T): number;
declare function setInterval<T extends unknown[]>(work: (...given: T) => void, ms?: number, ...given: T): number;
declare function clearTimeout(id?: number): void;
declare function clearInterval(id?: number): void;
