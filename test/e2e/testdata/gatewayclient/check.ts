// Checks each answer of a gateway against the document that describes its operations.
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { Middleware } from "openapi-fetch";

interface Content {
  [type: string]: { schema?: unknown };
}

interface Operation {
  operationId: string;
  method: string;
  path: string;
  parameters?: { name: string; in: string; required?: boolean; schema: { type: string } }[];
  requestBody?: { content: Content };
  responses: { [status: string]: { content?: Content } };
}

export class Document {
  readonly operations: Operation[] = [];
  readonly mistakes: string[] = [];
  readonly #answers = new Map<string, Set<number>>();
  readonly #pending: Promise<void>[] = [];
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: true });
  readonly #schemas = new Map<unknown, ValidateFunction>();
  readonly #refs: { [name: string]: unknown } = {};
  readonly #components: unknown;

  constructor(text: string) {
    const doc = JSON.parse(text);
    this.#components = doc.components;
    (addFormats as unknown as (ajv: Ajv2020) => void)(this.#ajv);
    this.#ajv.addFormat("binary", true);
    for (const [path, item] of Object.entries<Record<string, Operation>>(doc.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        this.operations.push({ ...operation, method: method.toUpperCase(), path });
        this.#answers.set(operation.operationId, new Set());
      }
    }
  }

  /** Checks all answers of a client. */
  middleware(): Middleware {
    return {
      onResponse: ({ request, response, schemaPath }) => {
        const operation = this.operations.find((o) => o.method === request.method && o.path === schemaPath);
        if (!operation) {
          this.mistakes.push(`${request.method} ${schemaPath} is not in the document`);
          return undefined;
        }
        this.#answers.get(operation.operationId)!.add(response.status);
        this.#pending.push(this.#check(operation, response.clone()));
        return undefined;
      },
    };
  }

  /** Takes down an answer without content, of an operation that is not called by fetch. */
  answered(id: string, status: number): void {
    const operation = this.operations.find((o) => o.operationId === id)!;
    if (!operation.responses[status] || operation.responses[status].content) this.mistakes.push(`${id}: ${status} is not in the document`);
    this.#answers.get(id)!.add(status);
  }

  /** Checks a value against a named schema. */
  mustBe(name: string, value: unknown): void {
    const validate = this.#validator(this.#refs[name] ??= { $ref: `#/components/schemas/${name}` });
    if (!validate(value)) this.mistakes.push(`${name}: ${JSON.stringify(value)}: ${this.#ajv.errorsText(validate.errors)}`);
  }

  /** Waits for all answers, and returns what is wrong: also operations that were not called. */
  async findings(): Promise<string[]> {
    await Promise.all(this.#pending);
    const missing = this.operations.flatMap(({ operationId, responses }) => {
      const got = [...this.#answers.get(operationId)!];
      const wanted = got.some((status) => status < 300 && responses[status]) && got.some((status) => status >= 400);
      return wanted ? [] : [`${operationId} did not both succeed and fail: ${got.join(", ")}`];
    });
    return [...this.mistakes, ...missing];
  }

  async #check(operation: Operation, response: Response): Promise<void> {
    const wrong = (what: string) => this.mistakes.push(`${operation.operationId}: ${response.status}: ${what}`);
    const described = operation.responses[response.status] ?? (response.status >= 400 ? operation.responses["default"] : undefined);
    if (!described) {
      wrong("the status is not in the document");
      return;
    }
    const type = (response.headers.get("content-type") ?? "").split(";")[0]!;
    if (!described.content || operation.method === "HEAD") {
      if ((await response.text()) !== "") wrong("there should be no body");
      return;
    }
    const content = described.content[type];
    if (!content) {
      wrong(`the type ${type} is not in the document`);
      return;
    }
    if (["application/octet-stream", "application/x-tar", "application/zstd"].includes(type!)) return;
    for (const value of values(type, await textOf(response))) {
      const validate = this.#validator(content.schema);
      if (!validate(value)) wrong(`${JSON.stringify(value)}: ${this.#ajv.errorsText(validate.errors)}`);
    }
  }

  #validator(schema: unknown): ValidateFunction {
    const known = this.#schemas.get(schema);
    if (known) return known;
    const validate = this.#ajv.compile({ ...(schema as object), components: this.#components });
    this.#schemas.set(schema, validate);
    return validate;
  }
}

/** Returns what has come of an answer, also when its reader leaves before its end. */
async function textOf(response: Response): Promise<string> {
  let text = "";
  const decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) text += decoder.decode(part, { stream: true });
  } catch (error) {
    if ((error as Error).name !== "AbortError") throw error;
  }
  return text;
}

/** Takes the body of an answer apart into what its schema describes. */
function values(type: string, text: string): unknown[] {
  switch (type) {
    case "application/jsonl":
      return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    case "text/event-stream":
      return [...text.matchAll(/^data: (.*)\n\n/gm)].map((found) => JSON.parse(found[1]!));
    default:
      return [JSON.parse(text)];
  }
}
