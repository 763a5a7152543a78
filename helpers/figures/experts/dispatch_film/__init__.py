"""Tokens find their experts over two hosts, with one copy for each host or one for each expert."""
