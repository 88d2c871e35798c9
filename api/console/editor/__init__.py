"""Forms of the console for nested request bodies: rules, changes of back-tests, controls.

A field's name is the JSON pointer of its member with dots: ``when.0.op`` is the operator of the first
condition. So a problem's pointer names the field that it is about. The forms work without scripts.
"""
