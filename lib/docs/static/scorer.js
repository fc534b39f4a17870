// SPDX-License-Identifier: MIT OR Apache-2.0
// What the search shows first: a class that has the very name, pages of the guide, then names of
// the reference, then all else.
// Numbers are Sphinx's own, but for score().
function placeOf(docname, description, score) {
  if (description && description.includes("parameter")) return -1000;
  if (docname.startsWith("lib/guide/") || docname === "README") return 1000;
  if (docname.startsWith("reference/")) return score >= 100 ? 1000 : 500;
  return docname.startsWith("CHANGELOG") || docname.startsWith("test/") ? -500 : 0;
}
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([docname, title, anchor, description, score]) => score + placeOf(docname, description, score),
};
