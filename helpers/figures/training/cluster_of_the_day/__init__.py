"""The cluster of the day: a riddle from the date, whose answer is the search of all layouts."""
