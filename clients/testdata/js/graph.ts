// A graph of deepagents, whose model follows a script, uses every tool of the backend.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import { createDeepAgent } from "deepagents";
import { SandboxBackend } from "podagent/deepagents";
import { saw } from "./saw.js";

type Step = [tool: string, args: { [name: string]: unknown }, answer: RegExp];

/** A model that calls the tools of a script, one in each turn. */
class Scripted extends BaseChatModel {
  readonly tools = new Set<string>();
  readonly #steps: Step[];
  #turn = 0;

  constructor(steps: Step[]) {
    super({});
    this.#steps = steps;
  }

  _llmType(): string {
    return "scripted";
  }

  override bindTools(tools: { name?: string; function?: { name: string } }[]): this {
    for (const tool of tools) this.tools.add(tool.name ?? tool.function!.name);
    return this;
  }

  async _generate(_messages: BaseMessage[], _options: this["ParsedCallOptions"], _manager?: CallbackManagerForLLMRun): Promise<ChatResult> {
    const step = this.#steps[this.#turn];
    const calls = step ? [{ type: "tool_call" as const, id: `call-${this.#turn}`, name: step[0], args: step[1] }] : [];
    this.#turn++;
    const message = new AIMessage({ content: step ? "" : "done", tool_calls: calls });
    return { generations: [{ text: "", message }] };
  }
}

export function graph(): void {
  describe("a graph of deepagents", () => {
    it("uses every tool of the backend", async () => {
      const backend = await SandboxBackend.create({ initialFiles: { "src/main.py": "print('one')\nprint('two')\n" } });
      const root = backend.sandbox.workdir!;
      const steps: Step[] = [
        ["ls", { path: root }, new RegExp(`${root}/src/ \\(directory\\)`)],
        ["read_file", { file_path: `${root}/src/main.py` }, /lines 1-2 of 2[^]*print\('one'\)\nprint\('two'\)/],
        ["read_file", { file_path: `${root}/src/main.py`, offset: 1, limit: 1 }, /lines? 2[^]*\nprint\('two'\)/],
        ["read_file", { file_path: `${root}/none` }, /Error: File '.*none' not found/],
        ["write_file", { file_path: `${root}/lib/util.py`, content: "def three():\n  return 3\n" }, /Successfully wrote/],
        ["edit_file", { file_path: `${root}/src/main.py`, old_string: "two", new_string: "drei" }, /Successfully replaced 1 occurrence/],
        ["edit_file", { file_path: `${root}/src/main.py`, old_string: "print", new_string: "echo" }, /Multiple occurrences/],
        ["grep", { pattern: "drei", path: root, output_mode: "files_with_matches" }, new RegExp(`${root}/src/main.py`)],
        ["grep", { pattern: "three", path: root, glob: "*.py" }, /1: def three\(\):/],
        ["glob", { pattern: "**/*.py", path: root }, /lib\/util\.py\nsrc\/main\.py/],
        ["execute", { command: "cat src/main.py; exit 3" }, /print\('drei'\)\n[^]*failed with exit code 3/],
        ["delete", { file_path: `${root}/lib` }, new RegExp(`Deleted ${root}/lib`)],
        ["execute", { command: "ls" }, /^src\n\n\[Command succeeded/],
      ];
      try {
        const model = new Scripted(steps);
        const agent = createDeepAgent({ model, backend });
        const { messages } = await agent.invoke({ messages: [{ role: "user", content: "work" }] }, { recursionLimit: 200 });
        const answers = (messages as BaseMessage[]).filter((message) => ToolMessage.isInstance(message)).map((message) => message.text);
        steps.forEach(([tool, args, wanted], i) => assert.match(answers[i] ?? "", wanted, `${tool} ${JSON.stringify(args)}`));
        assert.equal((messages as BaseMessage[]).at(-1)!.text, "done");
        const used = new Set(steps.map(([tool]) => tool));
        const ofFiles = [...model.tools].filter((name) => !["task", "write_todos"].includes(name));
        assert.deepEqual(ofFiles.filter((name) => !used.has(name)), [], "these tools were not used");
        saw("deepagents", "a graph with every tool");
      } finally {
        await backend.close();
      }
    });
  });
}
