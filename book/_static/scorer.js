// How the search ranks: a word in a title counts, a part of one ("ring" in "answering") hardly does.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 1, term: 5, partialTerm: 1,
};
