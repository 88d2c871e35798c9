"""Classes of financial messages, which links may or may not send (``ops/docs/WIRE.md``, links)."""

from __future__ import annotations

from typing import Final, Literal, get_args

from engine.iso8583.content import Advice, AuthorizationRequest, Content, ReversalNotice

MessageClass = Literal["authorization", "advice", "presentment", "refund", "force_post", "reversal"]
MESSAGE_CLASSES: Final[tuple[MessageClass, ...]] = get_args(MessageClass)


def message_class(content: Content) -> MessageClass:
    """The class of a message.

    A presentment that names no earlier message is a ``force_post``. One that names a message is a
    ``presentment`` here; its owner finds out whether that message exists (``Present.matched_only``).
    """
    if isinstance(content, AuthorizationRequest):
        return "refund" if content.purchase.kind == "refund" else "authorization"
    if isinstance(content, Advice):
        return "advice"
    if isinstance(content, ReversalNotice):
        return "reversal"
    if content.purchase.kind == "refund":
        return "refund"
    return "presentment" if content.purchase.references else "force_post"
