// Builds the page into the directory that the first argument names, which is emptied first. The same sources
// make the same bytes.
import { build } from "esbuild";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const to = process.argv[2] ?? "../dist";
rmSync(to, { recursive: true, force: true });
mkdirSync(to, { recursive: true });
await build({
  entryPoints: ["src/main.ts", "src/terminal.ts", "src/main.css", "src/terminal.css"],
  outdir: to, bundle: true, splitting: true, format: "esm", minify: true, charset: "utf8",
  target: ["es2022", "chrome109", "firefox115", "safari16.4"], chunkNames: "[name]-[hash]", legalComments: "none",
});
for (const name of ["index.html", "icon.svg"]) cpSync("src/" + name, to + "/" + name);
const used = ["@xterm/xterm", "@xterm/addon-fit"];
const text = used.map((name) => `${name}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").replaceAll("\r", "").trim()}\n`);
writeFileSync(to + "/licences.txt", "The console has these programs of others.\n\n" + text.join("\n\n"));
