"""All bounds, each with its unit in the name. Exceeding one is a clear error before anything is written."""

from __future__ import annotations

from typing import Final

DEPTH_MAX: Final = 200
"""Levels of containers in a value, the outermost counted as 1."""

TYPE_DEPTH_MAX: Final = 20
"""Levels of one type in another, in the text of a field's type in a team's file."""

NODES_MAX: Final = 20_000_000
"""Containers and leaves in one state."""

ENCODED_NODES_MAX: Final = 8_000_000
"""Containers and leaves in one encoded value: so many are made of one body, chunk or message at most."""

OTHER_BYTES_MAX: Final = 16 << 20
"""A value that takes more in another protocol than MessagePack is written in MessagePack."""

RECORD_BYTES_MAX: Final = 1 << 30
"""A record's body, encoded and before compression."""

EXPANDED_BYTES: Final = 1 << 20
"""Compressed data may expand to so many bytes, however short it is …"""

EXPANSION_COUNT_MAX: Final = 100
"""… and beyond them to so many times its own length."""

CHUNK_BYTES: Final = 256 * 1024
"""Aim for the encoded size of one chunk of a keyframe."""

DICTIONARY_BYTES: Final = 256 * 1024
"""Of a chunk that serves as a compression dictionary, this much of its end is used."""

COMPRESS_BYTES_MIN: Final = 256
"""Shorter bodies are stored as they are: compressing one takes as long as encoding it, and saves a twelfth of it."""

LARGE_BYTES: Final = 32 * 1024
"""Longer bodies are compressed less hard, so that saving them takes less time."""

BLOB_BYTES_MIN: Final = 64 * 1024
"""A leaf of a body that takes this much encoded is stored apart, once in its family."""

BLOB_BYTES_KEPT: Final = 8 << 20
"""A writer keeps so much of what it stored apart last, so as not to compress it again."""

ID_CHARS_MAX: Final = 200
"""A session's id."""

NAME_CHARS_MAX: Final = 200
"""A checkpoint's name, a key of a question."""

KEYFRAME_DELTAS: Final = 100
"""Snapshots after which a keyframe is due."""

KEYFRAME_DELTAS_SOON: Final = 25
"""Snapshots after which the first keyframe of a session is due, and any when it is closed."""

SLICE_RECORDS: Final = 500
"""Housekeeping drops so many bodies, or a few more, in one transaction: a writer waits for no longer."""

SLICE_BYTES: Final = 1 << 20
"""Housekeeping removes or gives back about so much in one transaction."""

GONE_S: Final = 600.0
"""An owner whose lease has been still for so long, by the clock of the place, does not hold up those who keep house."""

KEEP_LAST_COUNT: Final = 10
"""Restore points of a session that stay beyond its checkpoints, unless another number is said."""

SCRUB_CHARS_MIN: Final = 6
"""A shorter text is not scrubbed: it would be found in words that have nothing to do with it."""

ARGUMENT_BYTES_MAX: Final = 16 * 1024
"""An argument longer than this is recorded by its digest, length and beginning.

Its fingerprint is exact all the same.
"""

STREAM_BYTES_MAX: Final = 64 << 20
"""All chunks of one stream, encoded."""

CYCLE_COUNT_MAX: Final = 20
"""The longest round of calls that can be looked for in a run that goes in circles."""

PROGRESS_COUNT: Final = 4096
"""So many of its newest calls a run is compared with, and so many on branches that were left."""

STUCK_S: Final = 3600.0
"""A session that runs and has written nothing for so long is told of by `doctor`."""

GROWN_RECORDS: Final = 100_000
"""A log with more records than this is told of by `doctor`."""

GROWTH_DAY_RECORDS: Final = 20_000
"""A log that grows by more records a day is told of by `doctor` …"""

GROWTH_DAY_BYTES: Final = 256 << 20
"""… and one whose bodies grow by more bytes."""

LOOK_RECORDS: Final = 256
"""So many of the newest records of each session `doctor` reads, unless it is to read all."""

PROGRESS_RECORDS: Final = 2000
"""So many of the newest records are read when a session whose progress is watched is opened."""

EMPTY_DELTA_BYTES: Final = 1
"""A delta of so many bytes changes nothing."""

ERROR_BYTES: Final = 4096
"""A longer result is not looked into for what may tell of an error, or for the numbers in it."""

ERRORS_COUNT_MAX: Final = 64
"""So many different errors of one tool are told apart."""

DIMENSION_COUNT_MAX: Final = 4096
"""Numbers of a vector."""

SIMILAR_CHARS_MAX: Final = 20_000
"""So much of a text is hashed into a vector."""

NUMPY_COUNT: Final = 64
"""From so many vectors on they are compared with numpy, where it is there."""

EXPLORED_CHARS: Final = 300
"""So much of the text of a way that was tried is kept."""

EXPLORED_COUNT_MAX: Final = 4096
"""So many of the newest ways that were tried are compared."""

ERROR_CHARS: Final = 200
"""So much of the text of an error counts when two are compared."""

FOLLOW_S: Final = 0.1
"""How often who follows a log asks whether there is more."""

POLL_S_MIN: Final = 0.02
"""How soon a session that waits looks into its inbox again: at first, then twice as long each time …"""

POLL_S_MAX: Final = 0.5
"""… up to this."""

LOOK_S: Final = 5.0
"""Whoever waits for a session to change looks after so long at the latest, also if its store has told of nothing."""

BACKOFF_S: Final = 0.1
"""How long an action that failed waits before it is tried again, unless it is declared otherwise: at first, then twice
as long each time, and a random part of as much …"""

BACKOFF_S_MAX: Final = 60.0
"""… up to this."""

RETRY_AFTER_S_MAX: Final = 3600.0
"""Seconds for which a server may ask to be left alone; what asks for more is tried after this."""

VIEW_BYTES_MAX: Final = 64 * 1024
"""A field longer than this is shown only by its length where a store keeps records readable."""

ABSENT_COUNT_MAX: Final = 1000
"""If more values in one part cannot be stored, the whole part is absent from a snapshot for inspection."""

SNAPSHOT_CALLS_COUNT: Final = 50
"""Tool calls that an `AgentSnapshot` tells of, unless it is asked for more."""

HOOK_S: Final = 30.0
"""How long each hook of a restore may take, unless the agent says otherwise."""

LEASE_S: Final = 10.0
"""How long a lease stands without being renewed, on the observer's clock."""

ENVELOPE_S_MAX: Final = 60.0
"""How long who writes to a sealed store goes on with the data key it knows, when another process has made a new one."""

FAMILIES_COUNT_MAX: Final = 4096
"""Families of a sealed store whose keys a process keeps at hand."""

SUBMITTED_COUNT_MAX: Final = 256
"""Appends of one store that may wait for their commit without a thread of their own; who submits the next one waits."""

PARALLEL_COUNT: Final = 64
"""Calls of one parallel block that run at the same time, unless the block says another number."""

SIBLINGS_WAIT_S: Final = 5.0
"""Outside of a block, how long a call that has no record waits for tasks that may claim what is recorded."""

WITNESS_EVERY_S: Final = 0.05
"""A witness is told at most so often; what is written in between is told together."""

WITNESS_WAIT_S: Final = 5.0
"""How long the closing of a session waits until the witness was told of it; then that is reported."""

WITNESS_AGAIN_S: Final = 1.0
"""When a witness that could not be told is tried again; and how old what is known of it may be at an opening."""

WITNESS_BYTES: Final = 256 * 1024
"""The file of a witness is written anew when it is longer than this, and than twice what counts of it."""

OBSERVER_S: Final = 0.1
"""Whoever looks on at a store and takes longer than this over an event is warned of."""

OBSERVED_COUNT_MAX: Final = 4096
"""Events that may wait for an observer aside; what comes then it is not told, and that is counted."""

OBSERVER_END_S: Final = 5.0
"""How long the closing of a store waits until an observer aside was told what waits for it."""

JOURNAL_BYTES: Final = 64 << 20
"""A file of the journal's mirror is put aside before it is longer than this, unless it is said otherwise."""

JOURNAL_BYTES_MIN: Final = 4096
"""The least that may be said."""

JOURNAL_BACKUPS_COUNT: Final = 5
"""So many files that were put aside are kept, unless it is said otherwise."""

JOURNAL_BACKUPS_COUNT_MAX: Final = 1000
"""The most that may be said."""

JOURNAL_READ_BYTES: Final = 1 << 20
"""So much of a mirror is read, or written, at once."""

JOURNAL_EVERY_S: Final = 0.05
"""A mirror is written at most so often; what is done in between is written together."""

JOURNAL_BUSY_S: Final = 5.0
"""How long who writes to a mirror waits for other processes that do; then it tries again later."""

JOURNAL_WAIT_S: Final = 5.0
"""How long the closing of a store waits until its journal is mirrored; then the next opening makes up for it."""

JOURNAL_AGAIN_S: Final = 1.0
"""When a mirror that could not be written is tried again."""

CONFIG_BYTES_MAX: Final = 64 * 1024
"""A configuration file."""

CONFIG_DEPTH_MAX: Final = 10
"""Levels of mappings and lists in it."""

KEYFRAME_DELTAS_MAX: Final = 100_000
"""The most snapshots between two keyframes that may be asked for."""

LABELS_COUNT_MAX: Final = 100
"""Names of actions, classes of errors, strategies that metrics tell apart, each; what comes then is `other`."""

OVERVIEW_READS_COUNT_MAX: Final = 1000
"""Records that a look over a store reads to tell doubts from questions; what waits beyond them counts as questions."""

OVERVIEW_S: Final = 15.0
"""A look over a store is not older than this when it is asked for."""

TOOL_OUTPUT_CHARS_MAX: Final = 20_000
"""So much of a tool's result a model is shown, unless the tool says another bound; the rest of it is left out."""

TOOL_OUTPUT_CHARS_MIN: Final = 200
"""The least bound that a tool may say."""

TOOL_QUESTION_CHARS_MAX: Final = 4000
"""So much of a call is shown to the person who is asked whether it may be made."""

TOOL_FILE_BYTES_MAX: Final = 16 << 20
"""A longer file is not changed or deleted by a file tool: what it holds could not be kept to undo it."""

TOOL_READ_CHARS_MAX: Final = 200_000
"""So much text a file tool reads at most in one call."""

TOOL_READ_BYTES_MAX: Final = 256 << 20
"""So far a file tool reads into a file to find the lines that it was asked for."""

TOOL_ENTRIES_COUNT_MAX: Final = 1000
"""So many entries of a folder are listed in one call."""

TOOL_SEARCH_S: Final = 20.0
"""A search over files that takes longer is ended."""

COMMAND_S: Final = 120.0
"""A command of an agent that takes longer is ended, unless another limit is said."""

COMMAND_MEMORY_BYTES: Final = 2 << 30
"""The memory of a command of an agent, all its processes together, unless another limit is said."""

COMMAND_OUTPUT_BYTES: Final = 100 << 20
"""A command of an agent that writes more is ended, unless another limit is said."""

COMMAND_KEPT_BYTES: Final = 256 * 1024
"""So much of what a command writes is kept, of each of its two streams, unless another limit is said."""

COMMAND_FILES_COUNT: Final = 1024
"""Files that one process of a command may have open, unless another limit is said."""

COMMAND_PROCESSES_COUNT: Final = 128
"""Processes that a command may have at a time, unless another limit is said."""

COMMAND_END_S: Final = 10.0
"""So long it is waited for the end of a command's processes once they are killed."""

FETCH_BYTES_MAX: Final = 5 << 20
"""So much of a page is read, unpacked, unless another bound is said."""

FETCH_S: Final = 30.0
"""A fetch that takes longer is given up, unless another time is said."""

REDIRECTS_COUNT_MAX: Final = 5
"""So many redirects a fetch follows."""

MCP_S: Final = 60.0
"""A call of a tool of an MCP server that takes longer is given up, unless another time is said."""

MCP_START_S: Final = 30.0
"""An MCP server that is not ready by then is given up, unless another time is said."""

MODEL_RETRIES_COUNT: Final = 4
"""How often a request to a language model is made again at once after an error that may pass."""

MODEL_BACKOFF_S: Final = 1.0
"""Before a request to a language model is made again the first time; then twice as long each time."""

PROMPT_CHARS_MAX: Final = 4096
"""A prompt up to this length is recorded as it is; of a longer one a digest, its length, its beginning and its end."""

PROMPT_SHOWN_CHARS: Final = 200
"""So much of the beginning and of the end of a longer prompt is recorded."""

PROBLEM_CHARS_MAX: Final = 2000
"""So much is shown to a model of what is wrong with its reply."""

LOCAL_CONTEXT_TOKENS: Final = 8192
"""What a model that runs here is told and answers may take, together."""

LOCAL_REPLY_TOKENS: Final = 2048
"""A reply of a model that runs here ends there, unless `max_tokens` of its settings says another number."""

LOCAL_THREADS_COUNT: Final = 2
"""Threads that a model here computes on, unless another number is said; but at most half as many as processors."""

LOCAL_THREADS_COUNT_MAX: Final = 256
"""So many threads may be asked for."""

LOCAL_START_S: Final = 300.0
"""A model that is not loaded by then is given up."""

LOCAL_END_S: Final = 5.0
"""So long it is waited for the end of a server that says that it cannot serve a model."""

SCRIPT_BYTES_MAX: Final = 16 << 20
"""A file of scripted replies."""

SCRIPT_WAIT_S_MAX: Final = 60.0
"""A scripted reply waits no longer than this, before it and before each piece of it."""

WORKSPACE_PIECE_BYTES: Final = 256 * 1024
"""Files are cut into pieces of this length; shorter ones share a chunk."""

WORKSPACE_BATCH_BYTES: Final = 8 << 20
"""A capture puts its chunks into the store when it has so much of them."""

WORKSPACE_DEPTH_MAX: Final = 100
"""Levels of folders in a workspace; what is deeper is left out."""

WORKSPACE_NAMES_COUNT_MAX: Final = 1_000_000
"""Names in a workspace, unless its budget says otherwise."""

WORKSPACE_BYTES_MAX: Final = 16 << 30
"""Bytes of the files in a workspace, unless its budget says otherwise."""

WORKSPACE_FILE_BYTES_MAX: Final = 1 << 30
"""A longer file is left out of a workspace, unless its rules say otherwise."""

WORKSPACE_CAPTURE_S: Final = 60.0
"""How long a capture may take, unless its budget says otherwise."""

TASKS_COUNT_MAX: Final = 50
"""Tasks in the plan of an agent."""

WINDOW_TOKENS: Final = 100_000
"""How many tokens a model takes, unless something else is said."""

WINDOW_TOKENS_MIN: Final = 2000
"""The least that may be said a model takes."""

FACTS_COUNT_MAX: Final = 300
"""Facts that an agent keeps beside its history, and open questions."""

FACT_CHARS_MAX: Final = 600
"""A longer fact, rule or question is refused."""

TRIED_COUNT: Final = 10
"""So many of the ways that were given up an agent is told of, the newest, and so many calls of each."""

TRIED_CHARS: Final = 400
"""So much an agent is told of why a way was given up, and of each call that was undone or stands."""

REJECTIONS_COUNT: Final = 3
"""A task that was judged not to be done so many times is a dead end."""
