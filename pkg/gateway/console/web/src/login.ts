// The login: by a tenant's key, or by the code of a link.
import { send } from "./api.js";
import { fill, h } from "./dom.js";

export function showLogin(main: HTMLElement, done: () => void, code?: string) {
  const key = h("input", { id: "key", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const wrong = h("p", { id: "wrong", role: "alert", class: "wrong" });
  const form = h(
    "form",
    { class: "login" },
    h("h1", {}, "Log in"),
    h("label", { for: "key" }, "Key"),
    key,
    h("button", { class: "primary" }, "Log in"),
    wrong,
  );
  const logIn = async (body: object) => {
    wrong.textContent = "";
    try {
      await send("POST", "/console/login", { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
    } catch (e) {
      wrong.textContent = e instanceof Error ? e.message : String(e);
      key.focus();
      return;
    }
    key.value = "";
    done();
  };
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    void logIn({ token: key.value });
  });
  fill(main, form);
  key.focus();
  if (code) void logIn({ code });
}
