"""The rules of resuming, without I/O: how calls, values, questions and saves are answered from the log or go on."""
