// Checks openapi.json, and writes the types of its operations to api.d.ts.
import { writeFileSync } from "node:fs";
import { createConfig, getTotals, formatProblems, lint } from "@redocly/openapi-core";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const config = await createConfig({
  extends: ["recommended-strict"],
  rules: {
    "operation-4xx-response": "off", // default describes them all
    "no-unused-components": "off", // the frames of a WebSocket are types that no answer has
  },
});
const problems = await lint({ ref: "openapi.json", config });
if (problems.length > 0) {
  formatProblems(problems, { format: "stylish", totals: getTotals(problems) });
  throw new Error("openapi.json has mistakes");
}

const blob = ts.factory.createTypeReferenceNode("Blob");
const types = await openapiTS(new URL("openapi.json", import.meta.url), {
  defaultNonNullable: false,
  transform: (schema) => (schema.format === "binary" ? blob : undefined),
});
writeFileSync("api.d.ts", astToString(types));
