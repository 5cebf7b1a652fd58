// Renders formulas with MathJax. Reads a JSON list of {formula, display} from standard
// input; prints a JSON list of problems, one string (empty if none) a formula.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.argv[2], "node_modules", "x.js"));
const { mathjax } = require("mathjax-full/js/mathjax.js");
const { TeX } = require("mathjax-full/js/input/tex.js");
const { SVG } = require("mathjax-full/js/output/svg.js");
const { liteAdaptor } = require("mathjax-full/js/adaptors/liteAdaptor.js");
const { RegisterHTMLHandler } = require("mathjax-full/js/handlers/html.js");
require("mathjax-full/js/input/tex/ams/AmsConfiguration.js");

const adaptor = liteAdaptor();
RegisterHTMLHandler(adaptor);

function problem({ formula, display }) {
  let found = "";
  const input = new TeX({
    packages: ["base", "ams"],
    formatError: (_, error) => {
      found = error.message;
      throw error;
    },
  });
  const page = mathjax.document("", { InputJax: input, OutputJax: new SVG() });
  try {
    adaptor.outerHTML(page.convert(formula, { display }));
  } catch (error) {
    return found || String(error.message ?? error);
  }
  return "";
}

const formulas = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(formulas.map(problem)));
