// xterm.js makes style elements and style attributes, which the page's policy forbids: rules that come as text
// are how a hostile page would be painted. They pass here by the interfaces for scripts, which the policy allows.

/** shield has all styles that a script gives as text pass. It may be called again. */
export function shield() {
  if (document.createElement === make) return;
  document.createElement = make as typeof document.createElement;
  HTMLElement.prototype.setAttribute = function (name: string, value: string) {
    if (name === "style") this.style.cssText = value;
    else set.call(this, name, value);
  };
}

const create = Document.prototype.createElement;
const set = Element.prototype.setAttribute;

function make(this: Document, tag: string, options?: ElementCreationOptions): HTMLElement {
  return tag === "style" ? sheet() : create.call(document, tag, options);
}

/** sheet stands for a style element. */
function sheet(): HTMLElement {
  const element = create.call(document, "span");
  const rules = new CSSStyleSheet();
  element.hidden = true;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, rules];
  Object.defineProperty(element, "textContent", { set: (text: string) => rules.replaceSync(text) });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== rules);
    remove();
  };
  return element;
}
